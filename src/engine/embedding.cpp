#include "lithe/embedding.h"

#include <algorithm>
#include <cmath>

#include "engine/loaded_model.h"
#include "engine/model_impl.h"
#include "models/model.h"

namespace lithe {
namespace {

using models::Pooling;

struct Text {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> types;  // as long, or empty
};

Status check_length(const engine::LoadedModel& model, std::size_t index, std::size_t count) {
  if (count == 0) return invalid("text {} has no token", index);
  const std::int64_t most = model.model().spec().context;
  if (static_cast<std::int64_t>(count) <= most) return {};
  return invalid("text {} has {} tokens, more than the model's context of {}", index, count, most);
}

/// Runs texts through the layers, several in one pass, and shows the rows of each: [tokens, hidden].
class Encoder {
 public:
  static Result<Encoder> create(engine::LoadedModel& model, std::span<const Text> texts, std::int64_t batch) {
    std::int64_t longest = 1, all = 0;
    for (const Text& text : texts) {
      longest = std::max<std::int64_t>(longest, std::ssize(text.ids));
      all += std::ssize(text.ids);
    }
    // No pass holds more than there is, and a text has a token at least.
    const std::int64_t rows = std::max(std::min(batch, all), longest);
    const std::int64_t most = std::min<std::int64_t>(std::ssize(texts), rows);
    const std::int64_t tokens = rows + most * kernels::kPageTokens;  // every text begins a page of its own
    LITHE_ASSIGN_OR_RETURN(kvcache::PagePool pool,
                           engine::make_pool_that_fits(model, tokens, most, {rows, longest, 0}));
    return Encoder(model, std::move(pool), batch);
  }

  Status run(std::span<const Text> texts,
             FunctionRef<bool(std::size_t index, std::span<const float> rows)> visit) {
    for (std::size_t begin = 0; begin < texts.size();) {
      std::size_t end = begin;
      std::int64_t rows = 0;
      while (end < texts.size() && (end == begin || rows + std::ssize(texts[end].ids) <= batch_))
        rows += std::ssize(texts[end++].ids);
      LITHE_RETURN_IF_ERROR(pass(texts, begin, end, visit));
      begin = end;
    }
    return {};
  }

 private:
  Encoder(engine::LoadedModel& model, kvcache::PagePool pool, std::int64_t batch)
      : model_(&model), pool_(std::make_unique<kvcache::PagePool>(std::move(pool))), batch_(batch) {}

  Status pass(std::span<const Text> texts, std::size_t begin, std::size_t end,
              FunctionRef<bool(std::size_t, std::span<const float>)> visit) {
    const models::ArchSpec& spec = model_->model().spec();
    models::Batch batch;
    batch.mask = spec.causal ? models::MaskKind::causal : models::MaskKind::bidirectional;
    std::vector<kvcache::SequenceCache> caches;
    caches.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      caches.emplace_back(*pool_);
      const std::int64_t count = std::ssize(texts[i].ids);
      LITHE_RETURN_IF_ERROR(caches.back().reserve(count));
      batch.sequences.push_back({&caches.back(), std::ssize(batch.tokens), count});
      batch.tokens.insert(batch.tokens.end(), texts[i].ids.begin(), texts[i].ids.end());
      batch.types.insert(batch.types.end(), texts[i].types.begin(), texts[i].types.end());
    }
    for (std::int64_t row = 0; row < std::ssize(batch.tokens); ++row) batch.logit_rows.push_back(row);
    const auto hidden = static_cast<std::size_t>(spec.hidden);
    std::vector<float> rows(batch.tokens.size() * hidden);
    LITHE_RETURN_IF_ERROR(model_->model().encode(batch, rows));
    for (std::size_t i = begin, at = 0; i < end; ++i) {
      const std::size_t count = texts[i].ids.size() * hidden;
      if (!visit(i, std::span(rows).subspan(at, count))) return cancelled("interrupted");
      at += count;
    }
    return {};
  }

  engine::LoadedModel* model_;
  std::unique_ptr<kvcache::PagePool> pool_;  // caches point to it
  std::int64_t batch_;
};

Pooling pooling_of(const models::ArchSpec& spec, EmbeddingPooling wanted) {
  switch (wanted) {
    case EmbeddingPooling::none:
      return Pooling::none;
    case EmbeddingPooling::mean:
      return Pooling::mean;
    case EmbeddingPooling::cls:
      return Pooling::cls;
    case EmbeddingPooling::last:
      return Pooling::last;
    case EmbeddingPooling::automatic:
      break;
  }
  if (spec.pooling == Pooling::rank) return Pooling::cls;
  if (spec.pooling != Pooling::none) return spec.pooling;
  return spec.causal ? Pooling::last : Pooling::mean;
}

std::vector<std::vector<float>> pool(std::span<const float> rows, std::size_t hidden, Pooling pooling) {
  const std::size_t count = rows.size() / hidden;
  std::vector<std::vector<float>> out;
  const auto take = [&](std::size_t row) {
    out.emplace_back(rows.begin() + static_cast<std::ptrdiff_t>(row * hidden),
                     rows.begin() + static_cast<std::ptrdiff_t>((row + 1) * hidden));
  };
  if (pooling == Pooling::cls) take(0);
  if (pooling == Pooling::last) take(count - 1);
  if (pooling == Pooling::none) {
    for (std::size_t row = 0; row < count; ++row) take(row);
  }
  if (!out.empty()) return out;
  std::vector<double> sum(hidden);
  for (std::size_t i = 0; i < rows.size(); ++i) sum[i % hidden] += static_cast<double>(rows[i]);
  out.emplace_back();
  for (const double value : sum) out.back().push_back(static_cast<float>(value / static_cast<double>(count)));
  return out;
}

void normalize(std::vector<float>& row, int p) {
  if (p < 0) return;
  double norm = 0;
  for (const float value : row) {
    const double magnitude = std::fabs(static_cast<double>(value));
    norm = p == 0 ? std::max(norm, magnitude) : norm + std::pow(magnitude, p);
  }
  norm = p == 0 ? norm / 32760.0 : std::pow(norm, 1.0 / p);
  for (float& value : row) value = norm > 0 ? static_cast<float>(static_cast<double>(value) / norm) : 0.0f;
}

// [CLS] query [SEP] document [SEP], or with RoBERTa's vocabularies <s> query </s></s> document </s>, as every
// cross-encoder was trained. Only the former tell the two apart by segments.
Result<Text> encode_pair(const engine::LoadedModel& model, const std::string& query,
                         const std::string& document) {
  const tokenizer::Tokenizer& tokenizer = model.tokenizer();
  Text text;
  LITHE_ASSIGN_OR_RETURN(text.ids, tokenizer.encode(query, {.parse_special = false}));
  if (tokenizer.separator()) text.ids.push_back(*tokenizer.separator());
  const std::size_t first = text.ids.size();
  LITHE_ASSIGN_OR_RETURN(const auto second,
                         tokenizer.encode(document, {.add_special = false, .parse_special = false}));
  text.ids.insert(text.ids.end(), second.begin(), second.end());
  if (tokenizer.eos()) text.ids.push_back(*tokenizer.eos());
  if (model.model().spec().token_types > 1 && !tokenizer.separator()) {
    text.types.assign(text.ids.size(), 0);
    std::fill(text.types.begin() + static_cast<std::ptrdiff_t>(first), text.types.end(), std::uint8_t{1});
  }
  return text;
}

}  // namespace

Result<std::vector<Embedding>> embed(Model& model, std::span<const std::string> texts,
                                     const EmbedOptions& options,
                                     const std::function<bool(std::size_t)>& progress) {
  engine::LoadedModel& loaded = *model.impl().loaded;
  const models::ArchSpec& spec = loaded.model().spec();
  const Pooling pooling = pooling_of(spec, options.pooling);
  std::vector<Text> tokens(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    LITHE_ASSIGN_OR_RETURN(tokens[i].ids, loaded.tokenizer().encode(texts[i], {.parse_special = false}));
    LITHE_RETURN_IF_ERROR(check_length(loaded, i, tokens[i].ids.size()));
  }
  LITHE_ASSIGN_OR_RETURN(Encoder encoder, Encoder::create(loaded, tokens, options.batch));
  std::vector<Embedding> out(texts.size());
  LITHE_RETURN_IF_ERROR(encoder.run(tokens, [&](std::size_t index, std::span<const float> rows) {
    Embedding& embedding = out[index];
    embedding.tokens = std::ssize(tokens[index].ids);
    embedding.rows = pool(rows, static_cast<std::size_t>(spec.hidden), pooling);
    for (std::vector<float>& row : embedding.rows) normalize(row, options.normalize);
    return !progress || progress(index + 1);
  }));
  return out;
}

Result<std::vector<Ranked>> rerank(Model& model, const std::string& query,
                                   std::span<const std::string> documents, std::int64_t* tokens) {
  engine::LoadedModel& loaded = *model.impl().loaded;
  const models::ArchSpec& spec = loaded.model().spec();
  if (spec.labels == 0) {
    return unsupported(
        "{} has no classification head: reranking needs a cross-encoder (...ForSequenceClassification)",
        model.info().path);
  }
  std::vector<Text> pairs;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    LITHE_ASSIGN_OR_RETURN(Text text, encode_pair(loaded, query, documents[i]));
    LITHE_RETURN_IF_ERROR(check_length(loaded, i, text.ids.size()));
    if (tokens != nullptr) *tokens += std::ssize(text.ids);
    pairs.push_back(std::move(text));
  }
  std::vector<Ranked> ranked(documents.size());
  if (documents.empty()) return ranked;
  LITHE_ASSIGN_OR_RETURN(Encoder encoder, Encoder::create(loaded, pairs, EmbedOptions{}.batch));
  std::vector<float> scores(static_cast<std::size_t>(spec.labels));
  std::vector<std::vector<float>> read(documents.size());  // what the head reads of each
  LITHE_RETURN_IF_ERROR(encoder.run(pairs, [&](std::size_t index, std::span<const float> rows) {
    read[index] = std::move(pool(rows, static_cast<std::size_t>(spec.hidden), spec.head_pooling).front());
    return true;
  }));
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    loaded.model().classify(read[i], scores);
    ranked[i] = {i, scores.front()};
  }
  std::ranges::stable_sort(ranked, std::ranges::greater{}, &Ranked::score);
  return ranked;
}

}  // namespace lithe
