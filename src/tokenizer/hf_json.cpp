#include "tokenizer/hf_json.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "tokenizer/hf_steps.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {
namespace {

constexpr JsonLimits kLimits{.bytes = std::size_t{256} << 20};

/// One file on its way into a VocabSpec.
class Reader {
 public:
  explicit Reader(const Json& file) : file_(file), out_(std::make_unique<HfTokenizer>()) {
    out_->spec.model = "huggingface";
  }

  Result<std::unique_ptr<HfTokenizer>> read() {
    const Json* model = find_member(file_, "model");
    if (model == nullptr || !model->is_object()) return corrupt("tokenizer.json: no model");
    LITHE_ASSIGN_OR_RETURN(steps_, read_steps(file_));
    LITHE_RETURN_IF_ERROR(read_model(*model));
    LITHE_RETURN_IF_ERROR(read_added_tokens());
    fill_holes();
    if (pipeline_.byte_fallback) mark_byte_tokens();
    LITHE_RETURN_IF_ERROR(read_post_processor(find_member(file_, "post_processor"), 0));
    choose_alphabet();
    out_->spec.add_bos = out_->spec.bos.has_value();
    out_->spec.add_eos = out_->spec.eos.has_value();
    out_->spec.pipeline = std::move(pipeline_);
    return std::move(out_);
  }

 private:
  std::string_view keep(std::string text) { return out_->strings.emplace_back(std::move(text)); }

  Status set_token(std::int64_t id, std::string text, TokenType type) {
    if (id < 0 || id >= static_cast<std::int64_t>(kMaxTokens))
      return corrupt("tokenizer.json: token {} has the id {}", in_quotes(text), id);
    VocabSpec& spec = out_->spec;
    const auto index = static_cast<std::size_t>(id);
    if (index >= spec.tokens.size()) {
      spec.tokens.resize(index + 1);
      spec.types.resize(index + 1, TokenType::unused);
      present_.resize(index + 1, false);
    }
    spec.tokens[index] = keep(std::move(text));
    spec.types[index] = type;
    present_[index] = true;
    return {};
  }

  Status read_vocabulary(const Json& model) {
    const Json* vocabulary = find_member(model, "vocab");
    if (vocabulary == nullptr || !vocabulary->is_object())
      return corrupt("tokenizer.json: a model without vocab");
    for (const auto& [token, id] : vocabulary->items()) {
      if (!id.is_number_integer()) return corrupt("tokenizer.json: token {} has no id", in_quotes(token));
      LITHE_RETURN_IF_ERROR(set_token(id.get<std::int64_t>(), token, TokenType::normal));
    }
    if (const std::string_view unknown = string_of(model, "unk_token"); !unknown.empty()) {
      const auto found = vocabulary->find(unknown);
      if (found != vocabulary->end()) out_->spec.unk = found->get<TokenId>();
    }
    return {};
  }

  Status read_model(const Json& model);
  Status read_merges(const Json& model);
  Status read_unigram(const Json& model);
  Status read_added_tokens();
  Status read_post_processor(const Json* processor, int depth);
  Status put_around(const Json& id, bool before);
  void read_pair(const Json& processor, const Json* known);
  void fill_holes();
  void mark_byte_tokens();
  void choose_alphabet();
  void find_row();

  const Json& file_;
  HfSteps steps_;
  Pipeline pipeline_;
  std::vector<bool> present_;
  std::unique_ptr<HfTokenizer> out_;
};

Status Reader::read_model(const Json& model) {
  std::string_view type = string_of(model, "type");
  if (type.empty() && model.contains("merges")) type = "BPE";
  pipeline_.byte_fallback = bool_of(model, "byte_fallback", false);
  if (type == "Unigram") return read_unigram(model);
  LITHE_RETURN_IF_ERROR(read_vocabulary(model));
  if (type == "BPE") {
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!string_of(model, affix).empty()) return unsupported("tokenizer.json: BPE with {}", affix);
    }
    pipeline_.model = steps_.byte_level ? ModelKind::byte_bpe : ModelKind::char_bpe;
    pipeline_.fuse_unknown = bool_of(model, "fuse_unk", false);
    pipeline_.ignore_merges = bool_of(model, "ignore_merges", false);
    return read_merges(model);
  }
  if (type == "WordPiece") {
    if (string_of(model, "continuing_subword_prefix", "##") != "##")
      return unsupported("tokenizer.json: WordPiece with another prefix than ##");
    pipeline_.model = ModelKind::word_piece;
    const Json* longest = find_member(model, "max_input_chars_per_word");
    if (longest != nullptr && longest->is_number_unsigned())
      pipeline_.longest_word = longest->get<std::size_t>();
    return {};
  }
  if (type == "WordLevel") {
    pipeline_.model = ModelKind::word_level;
    return {};
  }
  return unsupported("tokenizer.json: model {}", in_quotes(type));
}

/// "left right", or ["left", "right"]. Blanks inside a part of the second form are U+2581 where that means a blank.
Status Reader::read_merges(const Json& model) {
  const Json* merges = find_member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return corrupt("tokenizer.json: BPE without merges");
  out_->spec.merges.reserve(merges->size());
  for (const Json& merge : *merges) {
    if (merge.is_string()) {
      out_->spec.merges.push_back(keep(merge.get<std::string>()));
      continue;
    }
    if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
      return corrupt("tokenizer.json: merge {} is not a pair", out_->spec.merges.size());
    std::string text;
    for (const Json& part : merge) {
      std::string written = part.get<std::string>();
      if (written.find(' ') != std::string::npos) {
        if (!steps_.metaspace) return unsupported("tokenizer.json: a merge of tokens with blanks");
        for (std::size_t at = 0; (at = written.find(' ', at)) != std::string::npos;)
          written.replace(at, 1, kBlank);
      }
      text += (text.empty() ? "" : " ") + written;
    }
    out_->spec.merges.push_back(keep(std::move(text)));
  }
  return {};
}

Status Reader::read_unigram(const Json& model) {
  pipeline_.model = ModelKind::unigram;
  pipeline_.fuse_unknown = true;
  const Json* vocabulary = find_member(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_array())
    return corrupt("tokenizer.json: a Unigram model without vocab");
  for (const Json& entry : *vocabulary) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      return corrupt("tokenizer.json: vocab entry {} is not a token and its score", out_->spec.scores.size());
    LITHE_RETURN_IF_ERROR(set_token(static_cast<std::int64_t>(out_->spec.scores.size()),
                                    entry[0].get<std::string>(), TokenType::normal));
    out_->spec.scores.push_back(entry[1].get<double>());
  }
  const Json* unknown = find_member(model, "unk_id");
  if (unknown != nullptr && unknown->is_number_integer()) {
    const auto id = unknown->get<std::int64_t>();
    if (id < 0 || id >= static_cast<std::int64_t>(out_->spec.tokens.size()))
      return corrupt("tokenizer.json: unk_id is {}", id);
    out_->spec.unk = static_cast<TokenId>(id);
  }
  return {};
}

Status Reader::read_added_tokens() {
  const Json* added = find_member(file_, "added_tokens");
  if (added == nullptr || added->is_null()) return {};
  if (!added->is_array()) return corrupt("tokenizer.json: added_tokens is no list");
  for (const Json& token : *added) {
    const Json* id = find_member(token, "id");
    if (id == nullptr || !id->is_number_integer())
      return corrupt("tokenizer.json: an added token without an id");
    const bool special = bool_of(token, "special", false);
    LITHE_RETURN_IF_ERROR(set_token(id->get<std::int64_t>(), std::string(string_of(token, "content")),
                                    special ? TokenType::control : TokenType::user_defined));
    AddedTokenRule rule{.lstrip = bool_of(token, "lstrip", false),
                        .rstrip = bool_of(token, "rstrip", false),
                        .single_word = bool_of(token, "single_word", false),
                        .normalized = bool_of(token, "normalized", !special)};
    if (steps_.normalizers.empty()) rule.normalized = false;  // all the same then
    if (rule.lstrip || rule.rstrip || rule.single_word || rule.normalized)
      out_->spec.rules[id->get<TokenId>()] = rule;
  }
  return {};
}

/// As llama.cpp's converter names what no token has.
void Reader::fill_holes() {
  VocabSpec& spec = out_->spec;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!present_[id]) spec.tokens[id] = keep("[PAD" + std::to_string(id) + "]");
  }
  if (pipeline_.model == ModelKind::unigram) spec.scores.resize(spec.tokens.size(), 0.0);
}

void Reader::mark_byte_tokens() {
  constexpr char kDigits[] = "0123456789ABCDEF";
  VocabSpec& spec = out_->spec;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string_view token = spec.tokens[id];
    const auto is_digit = [&](std::size_t at) {
      return std::string_view(kDigits).find(token[at]) != std::string_view::npos;
    };
    if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && is_digit(3) && is_digit(4) &&
        spec.types[id] == TokenType::normal) {
      spec.types[id] = TokenType::byte;
    }
  }
}

Status Reader::put_around(const Json& id, bool before) {
  std::optional<TokenId>& mark = before ? out_->spec.bos : out_->spec.eos;
  if (!id.is_number_integer()) return corrupt("tokenizer.json: post_processor names a token without id");
  const auto number = id.get<std::int64_t>();
  if (number < 0 || number >= static_cast<std::int64_t>(out_->spec.tokens.size()))
    return corrupt("tokenizer.json: post_processor names the id {}", number);
  if (mark) return unsupported("tokenizer.json: post_processor with several tokens on one side of the text");
  mark = static_cast<TokenId>(number);
  return {};
}

Status Reader::read_post_processor(const Json* processor, int depth) {
  if (processor == nullptr || processor->is_null()) return {};
  const std::string_view type = string_of(*processor, "type");
  if (type == "ByteLevel") return {};
  if (type == "Sequence") {
    const Json* parts = find_member(*processor, "processors");
    if (parts == nullptr || !parts->is_array() || depth > 8)
      return corrupt("tokenizer.json: a Sequence without processors");
    for (const Json& part : *parts) LITHE_RETURN_IF_ERROR(read_post_processor(&part, depth + 1));
    return {};
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    for (const bool before : {true, false}) {
      const Json* pair = find_member(*processor, before ? "cls" : "sep");
      if (pair == nullptr || !pair->is_array() || pair->size() != 2)
        return corrupt("tokenizer.json: {} without its tokens", type);
      LITHE_RETURN_IF_ERROR(put_around((*pair)[1], before));
    }
    out_->spec.add_sep = type == "RobertaProcessing";
    return {};
  }
  if (type != "TemplateProcessing") return unsupported("tokenizer.json: post_processor {}", in_quotes(type));
  const Json* single = find_member(*processor, "single");
  const Json* known = find_member(*processor, "special_tokens");
  if (single == nullptr || !single->is_array())
    return corrupt("tokenizer.json: TemplateProcessing without single");
  bool before = true;
  for (const Json& part : *single) {
    if (find_member(part, "Sequence") != nullptr) before = false;
    const Json* special = find_member(part, "SpecialToken");
    if (special == nullptr) continue;
    const Json* token = known == nullptr ? nullptr : find_member(*known, string_of(*special, "id"));
    const Json* ids = token == nullptr ? nullptr : find_member(*token, "ids");
    if (ids == nullptr || !ids->is_array())
      return corrupt("tokenizer.json: TemplateProcessing with a token not listed");
    for (const Json& id : *ids) LITHE_RETURN_IF_ERROR(put_around(id, before));
  }
  read_pair(*processor, known);
  return {};
}

/// Two texts: whether a second token follows the first one's end. Other ways to join them are nobody's business here.
void Reader::read_pair(const Json& processor, const Json* known) {
  const Json* pair = find_member(processor, "pair");
  if (pair == nullptr || !pair->is_array() || known == nullptr) return;
  std::vector<std::int64_t> between;
  int texts = 0;
  for (const Json& part : *pair) {
    if (find_member(part, "Sequence") != nullptr) ++texts;
    const Json* special = find_member(part, "SpecialToken");
    if (special == nullptr || texts != 1) continue;
    const Json* token = find_member(*known, string_of(*special, "id"));
    const Json* ids = token == nullptr ? nullptr : find_member(*token, "ids");
    if (ids == nullptr || !ids->is_array()) return;
    for (const Json& id : *ids) between.push_back(id.is_number_integer() ? id.get<std::int64_t>() : -1);
  }
  VocabSpec& spec = out_->spec;
  const auto is_token = [&](std::int64_t id) { return id >= 0 && id < std::ssize(spec.tokens); };
  if (between.size() != 2 || between[0] != spec.eos || !is_token(between[1])) return;
  spec.add_sep = true;
  spec.sep = static_cast<TokenId>(between[1]);
}

/// A row with the same patterns has a faster splitter, and a name that other programs know.
void Reader::find_row() {
  std::vector<std::string> patterns;
  for (const SplitStep& step : steps_.splits) {
    if (step.kind != SplitStep::Kind::pattern || step.behavior != SplitStep::Behavior::isolated ||
        step.invert)
      return;
    patterns.push_back(step.text);
  }
  if (patterns.empty()) return;
  const auto& normalizers = steps_.normalizers;
  const bool nfc = normalizers.size() == 1 && normalizers[0].kind == NormalizerStep::Kind::nfc;
  const PreTokenizerRow* row = find_pre_tokenizer(patterns, nfc, pipeline_.ignore_merges);
  if (row == nullptr) return;
  pipeline_.pre = row->names[0];
  out_->pre_row = row->names[0];
  out_->exact_row =
      row->nfc == nfc && row->ignore_merges == pipeline_.ignore_merges && (nfc || normalizers.empty());
  steps_.splits.clear();
}

void Reader::choose_alphabet() {
  const ModelKind model = pipeline_.model;
  pipeline_.alphabet = Alphabet::plain;
  if (model == ModelKind::byte_bpe) {
    pipeline_.alphabet = Alphabet::byte_level;
    find_row();
  } else if (model == ModelKind::word_piece) {
    pipeline_.alphabet = Alphabet::word_piece;
  } else if (steps_.metaspace && use_plain_blanks(steps_)) {
    pipeline_.alphabet = Alphabet::spaced;
  }
  pipeline_.normalizers = std::move(steps_.normalizers);
  pipeline_.splits = std::move(steps_.splits);
  pipeline_.decoding = std::move(steps_.decoding);
  if (steps_.has_decoder || model == ModelKind::byte_bpe) return;
  pipeline_.decoding.spaces_between = model != ModelKind::word_piece;  // tokens are joined with blanks
  pipeline_.decoding.first = Decoding::First::without_space;
}

}  // namespace

Result<std::unique_ptr<HfTokenizer>> parse_tokenizer_json(std::string_view text) {
  auto file = parse_json(text, kLimits);
  if (!file.ok()) return std::move(file).status().with_context("tokenizer.json");
  if (!file->is_object()) return corrupt("tokenizer.json: no JSON object");
  return Reader(*file).read();
}

}  // namespace lithe::tokenizer
