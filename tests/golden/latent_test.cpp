// Latent attention in its absorbed form against what the paper writes down (DeepSeek-V2, 2405.04434, section 2.1): keys and
// values of all heads unfolded, in doubles. One layer without a feed-forward part, random odd sizes.
#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "layers/context.h"
#include "support.h"

namespace lithe::test {
namespace {

struct LatentSizes {
  std::int64_t hidden = 0, heads = 0, rank = 0, query_rank = 0, plain = 0, rope = 0, value = 0, tokens = 0;
  std::int64_t query() const { return plain + rope; }
};

using Row = std::vector<double>;

constexpr std::int64_t kVocab = 50;
constexpr double kEps = 1e-5;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

TinyFile latent_file(const LatentSizes& sizes, std::uint64_t seed) {
  TinyFile file;
  const auto u32 = [&](const std::string& key, std::int64_t value) {
    file.metadata.emplace_back("deepseek2." + key, static_cast<std::uint32_t>(value));
  };
  file.metadata.emplace_back("general.architecture", "deepseek2");
  file.metadata.emplace_back("deepseek2.attention.layer_norm_rms_epsilon", static_cast<float>(kEps));
  u32("block_count", 1);
  u32("leading_dense_block_count", 1);
  u32("context_length", 4096);
  u32("embedding_length", sizes.hidden);
  u32("feed_forward_length", 8);
  u32("attention.head_count", sizes.heads);
  u32("attention.head_count_kv", sizes.heads);
  u32("attention.key_length", sizes.query());
  u32("attention.value_length", sizes.value);
  u32("attention.kv_lora_rank", sizes.rank);
  u32("rope.dimension_count", sizes.rope);
  if (sizes.query_rank > 0) u32("attention.q_lora_rank", sizes.query_rank);

  Rng rng(seed);
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t cols, double scale = 1) {
    TinyTensor tensor{name, {static_cast<std::uint64_t>(cols)}, DType::f32, {}};
    if (rows > 0) tensor.dims.push_back(static_cast<std::uint64_t>(rows));
    tensor.values.resize(at(std::max<std::int64_t>(rows, 1) * cols));
    const double deviation = rows > 0 ? scale / std::sqrt(static_cast<double>(cols)) : 0.3;
    for (float& value : tensor.values)
      value = static_cast<float>((rows > 0 ? 0.0 : 1.0) + deviation * rng.normal());
    file.tensors.push_back(std::move(tensor));
  };
  add("token_embd.weight", kVocab, sizes.hidden, 4);
  add("output_norm.weight", 0, sizes.hidden);
  add("blk.0.attn_norm.weight", 0, sizes.hidden);
  if (sizes.query_rank > 0) {
    add("blk.0.attn_q_a.weight", sizes.query_rank, sizes.hidden);
    add("blk.0.attn_q_a_norm.weight", 0, sizes.query_rank);
    add("blk.0.attn_q_b.weight", sizes.heads * sizes.query(), sizes.query_rank, 1.5);
  } else {
    add("blk.0.attn_q.weight", sizes.heads * sizes.query(), sizes.hidden, 1.5);
  }
  add("blk.0.attn_kv_a_mqa.weight", sizes.rank + sizes.rope, sizes.hidden);
  add("blk.0.attn_kv_a_norm.weight", 0, sizes.rank);
  add("blk.0.attn_kv_b.weight", sizes.heads * (sizes.plain + sizes.value), sizes.rank);
  add("blk.0.attn_output.weight", sizes.hidden, sizes.heads * sizes.value);
  add("blk.0.ffn_norm.weight", 0, sizes.hidden);
  add("blk.0.ffn_gate.weight", 8, sizes.hidden);
  add("blk.0.ffn_up.weight", 8, sizes.hidden);
  add("blk.0.ffn_down.weight", sizes.hidden, 8, 0);
  return file;
}

// --- the paper's form ----------------------------------------------------------------------------------------

Row product(TinyFile& file, const std::string& name, const Row& x) {
  const TinyTensor& matrix = file.tensor("blk.0." + name + ".weight");
  Row out(matrix.dims[1]);
  for (std::size_t r = 0; r < out.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c)
      out[r] += static_cast<double>(matrix.values[r * x.size() + c]) * x[c];
  }
  return out;
}

Row norm(TinyFile& file, const std::string& name, Row x) {
  const TinyTensor& weight = file.tensor("blk.0." + name + ".weight");
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(x.size()) + kEps);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factor * static_cast<double>(weight.values[i]);
  return x;
}

// Neighbouring channels are pairs. The angle is a float, as in the engine.
void rotate(double* x, std::int64_t dim, std::int64_t position) {
  for (std::int64_t i = 0; i < dim; i += 2) {
    const auto frequency =
        static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(dim)));
    const double angle = static_cast<double>(static_cast<float>(position) * frequency);
    const double a = x[i], b = x[i + 1];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

// The residual stream after the layer, [tokens, hidden].
Row unfolded(TinyFile& file, const LatentSizes& sizes, std::span<const std::int32_t> ids) {
  const TinyTensor& embedding = file.tensor("token_embd.weight");
  std::vector<Row> queries, rotated, unfolded_kv;
  Row stream;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto* token = embedding.values.data() + std::int64_t{ids[t]} * sizes.hidden;
    const Row x(token, token + sizes.hidden);
    stream.insert(stream.end(), x.begin(), x.end());
    const Row h = norm(file, "attn_norm", x);
    Row q = sizes.query_rank > 0
                ? product(file, "attn_q_b", norm(file, "attn_q_a_norm", product(file, "attn_q_a", h)))
                : product(file, "attn_q", h);
    const auto position = static_cast<std::int64_t>(t);
    for (std::int64_t head = 0; head < sizes.heads; ++head)
      rotate(q.data() + head * sizes.query() + sizes.plain, sizes.rope, position);
    queries.push_back(std::move(q));
    const Row both = product(file, "attn_kv_a_mqa", h);
    Row shared(both.begin() + sizes.rank, both.end());
    rotate(shared.data(), sizes.rope, position);
    rotated.push_back(std::move(shared));
    const Row latent = norm(file, "attn_kv_a_norm", Row(both.begin(), both.begin() + sizes.rank));
    unfolded_kv.push_back(product(file, "attn_kv_b", latent));
  }
  for (std::size_t t = 0; t < ids.size(); ++t) {
    Row attended(at(sizes.heads * sizes.value));
    for (std::int64_t head = 0; head < sizes.heads; ++head) {
      const double* q = queries[t].data() + head * sizes.query();
      const std::int64_t own = head * (sizes.plain + sizes.value);
      Row weights;
      for (std::size_t j = 0; j <= t; ++j) {
        double score = 0;
        for (std::int64_t i = 0; i < sizes.plain; ++i) score += q[i] * unfolded_kv[j][at(own + i)];
        for (std::int64_t i = 0; i < sizes.rope; ++i) score += q[sizes.plain + i] * rotated[j][at(i)];
        weights.push_back(score / std::sqrt(static_cast<double>(sizes.query())));
      }
      const double largest = *std::ranges::max_element(weights);
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (std::size_t j = 0; j <= t; ++j) {
        for (std::int64_t i = 0; i < sizes.value; ++i)
          attended[at(head * sizes.value + i)] +=
              weights[j] / sum * unfolded_kv[j][at(own + sizes.plain + i)];
      }
    }
    const Row given = product(file, "attn_output", attended);
    for (std::size_t i = 0; i < given.size(); ++i) stream[t * given.size() + i] += given[i];
  }
  return stream;
}

// --- and ours ------------------------------------------------------------------------------------------------

class LayerOutput : public layers::Observer {
 public:
  void on_layer_output(int, const float* x, std::int64_t rows, std::int64_t hidden) override {
    stream.insert(stream.end(), x, x + rows * hidden);
  }
  std::vector<float> stream;
};

TEST(LatentAttentionTest, AbsorbedIsUnfolded) {
  const LatentSizes cases[] = {
      {.hidden = 37,
       .heads = 3,
       .rank = 19,
       .query_rank = 0,
       .plain = 11,
       .rope = 6,
       .value = 9,
       .tokens = 45},
      {.hidden = 40,
       .heads = 5,
       .rank = 33,
       .query_rank = 13,
       .plain = 7,
       .rope = 2,
       .value = 17,
       .tokens = 33},
      {.hidden = 29, .heads = 1, .rank = 1, .query_rank = 1, .plain = 1, .rope = 4, .value = 1, .tokens = 7},
      // past a softmax block; more heads than one job takes
      {.hidden = 32,
       .heads = 2,
       .rank = 24,
       .query_rank = 0,
       .plain = 8,
       .rope = 8,
       .value = 8,
       .tokens = 270},
      {.hidden = 24,
       .heads = 70,
       .rank = 17,
       .query_rank = 9,
       .plain = 5,
       .rope = 4,
       .value = 3,
       .tokens = 20},
  };
  std::uint64_t seed = 1;
  for (const LatentSizes& sizes : cases) {
    TinyFile file = latent_file(sizes, seed);
    const std::filesystem::path path = scratch_folder() / "latent.gguf";
    file.write(path);
    const std::vector<std::int32_t> ids = random_ids(sizes.tokens, kVocab, seed++);
    const Row expected = unfolded(file, sizes, ids);
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    for (const kernels::Isa isa : kernels::available_isas()) {
      for (const std::int64_t piece : {std::int64_t{0}, std::int64_t{8}}) {
        Runner runner(path, {.precision = models::Precision::f32, .isa = isa, .threads = 2, .context = 512});
        LayerOutput seen;
        runner.model().set_observer(&seen);
        kvcache::SequenceCache cache = runner.sequence();
        runner.feed(cache, ids, piece);
        ASSERT_EQ(seen.stream.size(), expected.size());
        double error = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
          error = std::max(error, std::fabs(static_cast<double>(seen.stream[i]) - expected[i]));
        EXPECT_LT(error / largest, 2e-6) << kernels::isa_name(isa) << ", " << sizes.heads << " heads";
        if (piece == 0)
          fmt::print("[ counts ] {} heads of rank {}, {}: {} values within {:.1e} of f64\n", sizes.heads,
                     sizes.rank, kernels::isa_name(isa), expected.size(), error / largest);
      }
    }
  }
}

}  // namespace
}  // namespace lithe::test
