// lithe inspect: what a model file holds, whether it runs, what it needs.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "formats/hf_directory.h"
#include "inspect_hf.h"
#include "model_facts.h"
#include "model_flags.h"
#include "models/open_model.h"
#include "models/weight_table.h"
#include "tensor_table.h"
#include "values.h"

namespace lithe::app {
namespace {

using formats::GgufPair;
using formats::GgufTensor;
using formats::GgufValue;
using formats::ModelFile;
using Json = nlohmann::ordered_json;

// A file may describe an attention of a billion tokens; what a user asks for is bounded too.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 32;
constexpr std::uint64_t kDefaultBatch = 512;
constexpr std::size_t kShownElements = 8;  // of an array, in text and in JSON
constexpr std::size_t kShownText = 72;     // columns of a value

struct InspectFlags {
  std::string model, kv_type = "auto";
  std::uint64_t ctx = 0, batch = kDefaultBatch;
  bool all = false, json = false;

  DType kv_dtype() const { return kv_type == "auto" ? DType::f16 : find_format(kv_type)->dtype; }
};

// The memory asked about: --ctx, or the trained length.
struct Memory {
  std::uint64_t ctx;
  MemoryNeed need;
};

Result<std::optional<Memory>> gather_memory(const ModelFile& file, const ModelFacts& facts,
                                            const InspectFlags& flags) {
  if (!facts.spec || facts.elements == 0) return std::optional<Memory>();
  const std::uint64_t ctx = flags.ctx > 0 ? flags.ctx : static_cast<std::uint64_t>(facts.spec->context);
  LITHE_ASSIGN_OR_RETURN(const MemoryNeed need,
                         memory_need(file, *facts.spec, ctx, flags.batch, flags.kv_dtype()));
  return std::optional(Memory{ctx, need});
}

// ---------------------------------------------------------------- text

// A float that came from 32 bits in its shortest form: 1e-05, not 9.999999747378752e-06.
std::string number_text(double value) {
  const auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
}

std::string element_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text, 40)) out += c == '"' ? std::string("\\\"") : std::string(1, c);
  return out + "\"";
}
std::string element_text(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string element_text(double value) {
  return number_text(value);
}
std::string element_text(bool value) {
  return value ? "true" : "false";
}

template <typename T>
std::string array_text(const std::vector<T>& values) {
  std::string out = "[";
  std::size_t shown = 0;
  for (; shown < std::min(values.size(), kShownElements); ++shown) {
    const std::string next = element_text(values[shown]);
    if (shown > 0 && out.size() + next.size() > kShownText) break;
    out += (shown > 0 ? ", " : "") + next;
  }
  return out + (shown < values.size() ? ", ...]" : "]");
}

std::string value_text(const GgufValue& value) {
  return std::visit(
      []<typename T>(const T& v) -> std::string {
        if constexpr (std::is_same_v<T, bool>) {
          return element_text(v);
        } else if constexpr (std::is_same_v<T, double>) {
          return number_text(v);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return fmt::format("{}", v);
        } else if constexpr (std::is_same_v<T, std::string_view>) {
          return printable(v, kShownText);
        } else {
          return array_text(v);
        }
      },
      value);
}

std::string metadata_text(const ModelFile& file) {
  std::size_t key_width = 0, type_width = 0;
  for (const GgufPair& pair : file.metadata().pairs()) {
    key_width = std::max(key_width, printable(pair.key).size());
    type_width = std::max(type_width, pair.type_text().size());
  }
  std::string out;
  for (const GgufPair& pair : file.metadata().pairs()) {
    out += fmt::format("  {:<{}}  {:<{}}  {}\n", printable(pair.key), key_width, pair.type_text(), type_width,
                       value_text(*file.metadata().find(pair.key)));
  }
  return out;
}

std::string line(std::string_view label, const std::string& text) {
  return fmt::format("  {:<14} {}\n", label, text);
}

// "30 layers, hidden 576, 9 heads of 64 on 3 kv heads, ffn 1536"; of recurrent layers how many, and their state.
std::string shape_text(const models::ArchSpec& spec) {
  if (spec.layers.empty()) return "no layers";
  const auto recurrent = std::ranges::count_if(spec.layers, models::is_recurrent);
  const auto attending = std::ranges::find_if(spec.layers, models::attends);
  std::string text = fmt::format("{} layers, hidden {}", spec.layers.size(), spec.hidden);
  if (recurrent > 0) {
    const layers::MambaSpec& mixer = std::ranges::find_if(spec.layers, models::is_recurrent)->mamba;
    text += fmt::format(", {} of them recurrent with {} heads of {} and a state of {}", recurrent,
                        mixer.heads, mixer.head_dim, mixer.state);
  }
  if (attending == spec.layers.end()) return text;
  const models::LayerSpec& first = *attending;
  if (first.latent.rank > 0) {
    text += fmt::format(", {} heads of {} on a latent vector of {}", first.heads, first.latent.query_dim(),
                        first.latent.rank);
  } else {
    text += fmt::format(", {} heads of {}", first.heads, first.head_dim);
    text += first.kv_heads == first.heads ? "" : fmt::format(" on {} kv heads", first.kv_heads);
  }
  text += fmt::format(", ffn {}", first.ffn_dim);
  const auto differs = [&](const models::LayerSpec& layer) {
    return models::attends(layer) && (layer.heads != first.heads || layer.kv_heads != first.kv_heads ||
                                      layer.head_dim != first.head_dim || layer.ffn_dim != first.ffn_dim);
  };
  if (std::ranges::any_of(spec.layers, differs)) text += " (layer 0; others differ)";
  return text;
}

std::string vocabulary_text(const VocabularyFacts& vocabulary) {
  std::string text = printable(vocabulary.model.empty() ? "?" : vocabulary.model);
  if (!vocabulary.pre.empty()) text += fmt::format(" ({})", printable(vocabulary.pre));
  text += fmt::format(", {} tokens, {} merges", vocabulary.tokens, vocabulary.merges);
  if (vocabulary.bos) text += fmt::format(", BOS {}", *vocabulary.bos);
  if (vocabulary.eos) text += fmt::format(", EOS {}", *vocabulary.eos);
  return text;
}

std::string model_text(const ModelFacts& facts) {
  std::string out = "Model\n";
  if (!facts.name.empty()) out += line("name", printable(facts.name));
  if (!facts.architecture.empty()) out += line("architecture", printable(facts.architecture));
  if (facts.elements > 0) {
    out += line("weights", fmt::format("{} at {:.3f} bits", human_count(double(facts.elements)),
                                       facts.bits_per_weight()));
  }
  if (facts.spec) {
    out += line("shape", shape_text(*facts.spec));
    out += line("vocabulary", fmt::format("{} rows, {}", facts.spec->vocab,
                                          facts.spec->tied_head ? "the embedding is the output head too"
                                                                : "an output head of its own"));
    out += line("context", fmt::format("{} tokens", facts.spec->context));
  }
  if (facts.vocabulary) out += line("tokenizer", vocabulary_text(*facts.vocabulary));
  out += line("chat template",
              facts.chat_template_bytes > 0 ? fmt::format("{} bytes", facts.chat_template_bytes) : "none");
  if (facts.problems.empty()) {
    out += line("runs", "yes");
  } else {
    for (std::size_t i = 0; i < facts.problems.size(); ++i) {
      out += line(i == 0 ? "runs" : "", (i == 0 ? "no: " : "    ") + facts.problems[i]);
    }
  }
  for (const std::string& note : facts.notes) out += line("note", note);
  return out;
}

std::string tensors_text(const ModelFile& file, const ModelFacts& facts, bool all) {
  std::vector<TensorRow> rows;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string note =
        file.shard_paths().size() > 1 && all ? fmt::format("shard {}", tensor.shard + 1) : "";
    rows.push_back({std::string(tensor.name), tensor.dims, &tensor.type(), tensor.bytes(), note});
  }
  if (!all) rows = group_layers(std::move(rows));
  return fmt::format("Tensors ({})\n{}\n{}", file.tensors().size(), type_table(facts.types),
                     tensor_table(rows));
}

std::string memory_text(const Memory& memory, const InspectFlags& flags) {
  const MemoryNeed& need = memory.need;
  std::string out = fmt::format("Memory for {} tokens of context, {} in a step, keys and values in {}\n",
                                memory.ctx, flags.batch, block_format(flags.kv_dtype()).name);
  const auto bytes = [](std::uint64_t value) { return human_bytes(static_cast<double>(value)); };
  out += line("weights", fmt::format("{:>9}", bytes(need.weights)));
  out += line("KV cache", fmt::format("{:>9}   {} a token", bytes(need.kv_cache), bytes(need.kv_per_token)));
  out += line("activations", fmt::format("{:>9}   an estimate", bytes(need.scratch)));
  const std::uint64_t available = available_memory();
  out += line("in all", fmt::format("{:>9}   {} {} available here", bytes(need.total()),
                                    need.total() <= available ? "of" : "but only", bytes(available)));
  return out;
}

// ---------------------------------------------------------------- JSON

template <typename T>
Json array_json(const std::vector<T>& values) {
  Json first = Json::array();
  for (std::size_t i = 0; i < std::min(values.size(), kShownElements); ++i) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      first.push_back(std::string(values[i]));
    } else {
      first.push_back(static_cast<T>(values[i]));
    }
  }
  if (values.size() <= kShownElements) return first;
  return Json{{"count", values.size()}, {"first", std::move(first)}};
}

Json value_json(const GgufValue& value) {
  return std::visit(
      []<typename T>(const T& v) -> Json {
        if constexpr (std::is_arithmetic_v<T>) {
          return v;
        } else if constexpr (std::is_same_v<T, std::string_view>) {
          return std::string(v);
        } else {
          return array_json(v);
        }
      },
      value);
}

Json memory_json(const Memory& memory, const InspectFlags& flags) {
  return {{"ctx", memory.ctx},
          {"batch", flags.batch},
          {"kv_cache_dtype", block_format(flags.kv_dtype()).name},
          {"weights_bytes", memory.need.weights},
          {"kv_cache_bytes", memory.need.kv_cache},
          {"kv_bytes_per_token", memory.need.kv_per_token},
          {"activation_bytes_estimate", memory.need.scratch},
          {"total_bytes", memory.need.total()},
          {"available_bytes", available_memory()}};
}

std::string all_json(const ModelFile& file, const ModelFacts& facts, const std::optional<Memory>& memory,
                     const InspectFlags& flags) {
  Json json = {{"path", file.path().string()},
               {"format", file.format_name()},
               {"shards", file.shard_paths().size()},
               {"file_bytes", file.file_bytes()},
               {"architecture", facts.architecture},
               {"name", facts.name},
               {"runs", facts.problems.empty()},
               {"problems", facts.problems},
               {"notes", facts.notes},
               {"weights", facts.elements},
               {"bits_per_weight", facts.bits_per_weight()}};
  Json metadata = Json::object(), types = Json::object(), tensors = Json::array();
  for (const GgufPair& pair : file.metadata().pairs()) {
    metadata[std::string(pair.key)] = value_json(*file.metadata().find(pair.key));
  }
  for (const TypeRow& row : facts.types) {
    types[row.name] = {{"tensors", row.tensors}, {"weights", row.elements}, {"bytes", row.bytes}};
  }
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back({{"name", std::string(tensor.name)},
                       {"shape", tensor.dims},
                       {"type", tensor.type().name},
                       {"bytes", tensor.bytes()},
                       {"bits_per_weight", tensor.type().bits_per_weight()},
                       {"supported", tensor.format != nullptr},
                       {"shard", tensor.shard}});
  }
  json["types"] = std::move(types);
  json["memory"] = memory ? memory_json(*memory, flags) : Json();
  json["metadata"] = std::move(metadata);
  json["tensors"] = std::move(tensors);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status run_inspect(const InspectFlags& flags) {
  ModelFlags named;
  named.model = flags.model;
  LITHE_ASSIGN_OR_RETURN(const std::string path, named.path());
  const auto opened = models::open_model(path);
  if (!opened.ok() && formats::is_hf_directory(path))  // well-formed all the same, or it says what is not
    return inspect_hf_directory(path, opened.status(), flags.all, flags.json);
  LITHE_RETURN_IF_ERROR(opened.status());
  const ModelFile& file = **opened;
  const ModelFacts facts = gather_facts(file);
  LITHE_ASSIGN_OR_RETURN(const std::optional<Memory> memory, gather_memory(file, facts, flags));
  if (flags.json) return print(all_json(file, facts, memory, flags));
  const std::size_t files = file.shard_paths().size();
  const std::string shards = files > 1 ? fmt::format(" in {} files", files) : "";
  std::string out = fmt::format("{}\n{}, {}{}\n\n", file.path().string(), file.format_name(),
                                human_bytes(static_cast<double>(file.file_bytes())), shards);
  out += model_text(facts);
  if (memory) out += "\n" + memory_text(*memory, flags);
  out += fmt::format("\nMetadata ({})\n", file.metadata().pairs().size()) + metadata_text(file);
  if (!file.tensors().empty()) out += "\n" + tensors_text(file, facts, flags.all);
  return print(out);
}

}  // namespace

Run add_inspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  app.add_option(
         "-m,--model,model", flags->model,
         "Model: a GGUF file (any shard of a split), a Hugging Face directory, or a name in the model cache; "
         "default: the default model")
      ->type_name("MODEL");
  app.add_option("-c,--ctx,--max-model-len,--ctx-size", flags->ctx,
                 "Memory for so many tokens of context; default: the trained length")
      ->transform(whole_number(0, kMaxTokens))
      ->type_name("N");
  app.add_option("-b,--batch,--max-num-batched-tokens", flags->batch, "Memory for so many tokens in one step")
      ->transform(whole_number(1, kMaxTokens))
      ->capture_default_str()
      ->type_name("M");
  app.add_option("--kv-cache-dtype,--ctk", flags->kv_type, "Keys and values as f32, f16 or q8_0")
      ->transform(one_of({"auto", "f32", "f16", "q8_0"}))
      ->type_name("auto|f32|f16|q8_0");
  app.add_flag("--all", flags->all, "Every tensor on a line of its own, instead of layers folded together");
  app.add_flag("--json", flags->json, "The same for machines");
  app.footer("Example: lithe inspect model.gguf --ctx 4096 --kv-cache-dtype q8_0");
  return [flags] { return run_inspect(*flags); };
}

}  // namespace lithe::app
