#include "model_flags.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/bytes.h"
#include "base/env.h"
#include "base/file.h"
#include "base/text.h"
#include "hub/pull.h"
#include "values.h"

namespace lithe::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultModel = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::string home() {
  if (const auto home = system_env("HOME"); home && !home->empty()) return *home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_dir : "/";
}

/// A folder of the XDG base directory specification; relative values are ignored, as it asks.
std::string xdg(const std::string& variable, const char* otherwise) {
  const auto value = system_env(variable);
  if (value && value->starts_with('/')) return *value;
  return home() + "/" + otherwise;
}

}  // namespace

std::string model_cache() {
  return xdg("XDG_CACHE_HOME", ".cache") + "/lithe/models";
}
std::string state_folder() {
  return xdg("XDG_STATE_HOME", ".local/state") + "/lithe";
}

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

Result<std::vector<std::string>> parse_names(const std::string& flag, const std::string& text) {
  std::vector<std::string> names = split(text, ',');
  const bool one = names.size() == 1;  // empty: nothing was given, and there may be a default
  if (!one && std::find(names.begin(), names.end(), "") != names.end()) {
    return invalid("{} {}: an item is missing between two commas or at an end", flag, printable(text));
  }
  return names;
}

Result<std::vector<std::int64_t>> parse_list(const std::string& flag, const std::string& text,
                                             std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> values;
  LITHE_ASSIGN_OR_RETURN(const auto names, parse_names(flag, text));
  for (const std::string& name : names) {
    const auto value = parse_integer(name);
    if (!value.ok()) return invalid("{}: {}", flag, value.status().message());
    if (*value < least || *value > most)
      return invalid("{} {}: must lie in [{}, {}]", flag, *value, least, most);
    values.push_back(*value);
  }
  return values;
}

// --- ModelFlags ---------------------------------------------------------------------------------------------------------

void ModelFlags::add(CLI::App& app, Text text) {
  app.add_option("-m,--model,--hf,--hf-repo,model", model,
                 "Model file (GGUF), a name in the model cache, or org/name[:TYPE] that `lithe pull` fetched")
      ->type_name("MODEL");
  app.add_option("-t,--threads", threads,
                 "Threads; default: physical cores within the cgroup quota and affinity")
      ->transform(whole_number(0, 1024));
  app.add_option("--precision", precision, "Activations: the fastest arithmetic, or full f32")
      ->transform(one_of({"auto", "f32"}))
      ->type_name("auto|f32");
  app.add_option("--attention", attention, "Attention algorithm")->type_name("flash|naive|chunked");
  app.add_option("--kv-cache-dtype,--ctk,--cache-type-k", kv_type, "Keys and values as f32, f16 or q8_0")
      ->type_name("auto|f32|f16|q8_0");
  app.add_option_function<std::string>(
         "--ctv,--cache-type-v",
         [this](const std::string& type) {
           if (kv_type != "auto" && kv_type != type)
             throw CLI::ValidationError("--ctv", "keys and values have one type here");
           kv_type = type;
         },
         "The same as -ctk: keys and values have one type")
      ->type_name("TYPE");
  app.add_flag("--check-tensors", check_tensors, "Look for NaN and Inf in the weights while loading");
  if (text == Text::no) return;
  app.add_option("--chat-template", chat_template, "Chat template (Jinja) instead of the model's own")
      ->type_name("TEXT");
  app.add_option("--chat-template-file", chat_template_file, "The same from a file")->type_name("FILE");
}

Result<std::string> ModelFlags::path() const {
  const std::string cache = model_cache();
  std::error_code ignored;
  if (model.empty()) {
    const fs::path file = fs::path(cache) / kDefaultModel;
    if (fs::exists(file, ignored)) return file.string();
    return not_found(
        "no model given, and the default one is not there ({}): give a file with -m MODEL, or fetch it with "
        "scripts/run.sh",
        file.string());
  }
  if (fs::exists(model, ignored)) return model;
  if (model.find('/') == std::string::npos) {
    for (const std::string& name : {model, model + ".gguf"}) {
      if (fs::exists(fs::path(cache) / name, ignored)) return (fs::path(cache) / name).string();
    }
  }
  if (!model.ends_with(".gguf") && hub::looks_like_repo(model)) {
    LITHE_ASSIGN_OR_RETURN(const hub::Repo repo, hub::parse_repo(model));
    LITHE_ASSIGN_OR_RETURN(const fs::path found, hub::find_cached(hub::settings_from_environment(), repo));
    return found.string();
  }
  return not_found("there is no model {}: neither a file, nor in {}", printable(model, 400), cache);
}

Result<ModelOptions> ModelFlags::options(std::int64_t context) const {
  ModelOptions out;
  out.context = context;
  out.threads = threads;
  out.check_tensors = check_tensors;
  out.f32_activations = precision == "f32";
  if (attention == "naive") {
    out.attention = AttentionKind::naive;
  } else if (attention == "chunked") {
    out.attention = AttentionKind::chunked;
  } else if (attention != "flash") {
    return invalid("--attention {}: must be flash, naive or chunked", printable(attention));
  }
  if (kv_type == "f32") {
    out.kv_type = KvType::f32;
  } else if (kv_type == "f16") {
    out.kv_type = KvType::f16;
  } else if (kv_type == "q8_0") {
    out.kv_type = KvType::q8_0;
  } else if (kv_type != "auto") {
    return invalid("--kv-cache-dtype {}: must be auto, f32, f16 or q8_0", printable(kv_type));
  }
  out.chat_template = chat_template;
  if (!chat_template_file.empty()) {
    if (!chat_template.empty()) return invalid("--chat-template and --chat-template-file exclude each other");
    LITHE_ASSIGN_OR_RETURN(out.chat_template, read_file(chat_template_file, std::size_t{1} << 20));
  }
  return out;
}

Result<std::shared_ptr<Model>> ModelFlags::load(std::int64_t context) const {
  LITHE_ASSIGN_OR_RETURN(const ModelOptions model_options, options(context));
  LITHE_ASSIGN_OR_RETURN(const std::string file, path());
  return Model::load(file, model_options);
}

// --- EngineFlags --------------------------------------------------------------------------------------------------------

void EngineFlags::add(CLI::App& app) {
  app.add_option(
         "-c,--max-model-len,--ctx-size", max_model_len,
         "Context: prompt and answer together, in tokens; default: the model's, or what fits in memory")
      ->transform(whole_number(0));
  app.add_option("-b,--max-num-batched-tokens,--ub,--ubatch-size,--batch-size", max_num_batched_tokens,
                 "Tokens computed in one step")
      ->transform(whole_number(1, 1 << 20));
  app.add_option("--kv-cache-memory", kv_cache_memory, "Memory for keys and values; default: what fits")
      ->type_name("SIZE");
  app.add_flag("--kv-cache,!--no-kv-cache", kv_cache,
               "Recompute everything for each token (a baseline: the same text, slowly)");
}

Result<EngineOptions> EngineFlags::options() const {
  EngineOptions out;
  out.max_model_len = max_model_len;
  out.max_num_batched_tokens = max_num_batched_tokens;
  out.max_num_seqs = 1;
  out.kv_cache = kv_cache;
  if (!kv_cache_memory.empty()) {
    auto bytes = parse_bytes(kv_cache_memory);
    if (!bytes.ok()) return std::move(bytes).status().with_context("--kv-cache-memory");
    if (*bytes == 0) return invalid("--kv-cache-memory 0: must be above 0");
    out.kv_cache_memory = *bytes;
  }
  return out;
}

// --- SamplingFlags ------------------------------------------------------------------------------------------------------

void SamplingFlags::add(CLI::App& app) {
  app.add_option("-n,--max-tokens,--n-predict", max_tokens,
                 "Longest answer in tokens; -1: until the context is full")
      ->transform(whole_number(-1, std::int64_t{1} << 40));
  app.add_option("--min-tokens", min_tokens, "No end before this many tokens")->transform(whole_number(0));
  app.add_option("--temperature,--temp", sampling.temperature, "0: always the likeliest token")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Only the k likeliest tokens; 0: off")
      ->transform(whole_number(0, INT32_MAX))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "Only the likeliest with this much probability together; 1: off")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p,
                 "Only tokens with this share of the likeliest's probability; 0: off")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--typical-p,--typical", sampling.typical_p, "Only the most typical tokens; 1: off")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--repetition-penalty,--repeat-penalty", sampling.repetition_penalty,
                 "Divides logits of tokens seen before; 1: off")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--presence-penalty", sampling.presence_penalty, "Off logits of tokens in the answer")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--frequency-penalty", sampling.frequency_penalty, "The same for each time they occur")
      ->transform(real_number())
      ->capture_default_str();
  app.add_option("--repeat-last-n", sampling.repeat_last_n, "Tokens the penalties look back; -1: all")
      ->transform(whole_number(-1, INT32_MAX))
      ->capture_default_str();
  app.add_option("-s,--seed", seed, "The same seed gives the same text; -1: a fresh one")
      ->transform(whole_number(-1));
  app.add_option("--stop,--reverse-prompt", stop, "The answer ends before this text; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_option("-l,--logit-bias", logit_bias,
                 "Added to a token's logit, e.g. 42+3 or 42=-100; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ID=BIAS");
  app.add_flag("--ignore-eos", ignore_eos, "Never end by an end token");
}

Result<Request> SamplingFlags::request() const {
  Request out;
  out.sampling = sampling;
  for (const std::string& entry : logit_bias) {  // "42=-1.5", or llama.cpp's "42-1.5" and "42+3"
    const auto sign = entry.find_first_of("=+-", 1);
    if (sign == std::string::npos)
      return invalid("--logit-bias {}: write ID=BIAS, e.g. 42=-100", printable(entry));
    const std::string number = entry.substr(entry[sign] == '=' || entry[sign] == '+' ? sign + 1 : sign);
    const auto id = parse_integer(entry.substr(0, sign));
    float bias = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), bias);
    if (error != std::errc() || rest != number.data() + number.size() || !id.ok() || *id < 0 ||
        *id > INT32_MAX) {
      return invalid("--logit-bias {}: write ID=BIAS, e.g. 42=-100", printable(entry));
    }
    out.sampling.logit_bias[static_cast<std::int32_t>(*id)] = bias;
  }
  if (seed >= 0) out.sampling.seed = static_cast<std::uint64_t>(seed);
  out.max_tokens = max_tokens;
  out.min_tokens = min_tokens;
  out.stop = stop;
  out.ignore_eos = ignore_eos;
  return out;
}

}  // namespace lithe::app
