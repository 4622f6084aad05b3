// lithe convert: a model file in another type, or as a Hugging Face directory.
#include "formats/convert.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "convert_hf.h"
#include "models/open_model.h"
#include "tensor_table.h"
#include "values.h"

namespace lithe::app {
namespace {

namespace fs = std::filesystem;
using formats::ConversionPlan;
using formats::ModelFile;
using formats::PlannedTensor;

struct ConvertFlags {
  std::string input, output, type;
  int threads = 0;
  bool pure = false, dry_run = false, json = false, hf = false;
  std::string shard_size = "5GB";
};

std::string type_names() {
  std::string names;
  for (const BlockFormat& format : block_formats())
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  return names;
}

Result<DType> parse_type(const std::string& name) {
  if (const BlockFormat* format = find_format(name)) return format->dtype;
  return invalid("--type {}: not one of {}", in_quotes(name), type_names());
}

// Before any work: the output is not the input, its folder exists and has room.
Status check_output(const ModelFile& file, const fs::path& output, std::uint64_t bytes) {
  std::error_code error;
  const fs::path folder = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) return invalid("{} is not a folder", folder.string());
  if (fs::is_directory(output, error)) return invalid("{} is a folder", output.string());
  for (const fs::path& shard : file.shard_paths()) {
    if (fs::equivalent(shard, output, error)) return invalid("{} is the input itself", output.string());
  }
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < bytes) {
    return exhausted("{} needs {}, and {} has {} left", output.string(), human_bytes(double(bytes)),
                     folder.string(), human_bytes(double(space.available)));
  }
  return {};
}

// One line of the report: tensors of one type, or of one pair of types.
struct Sum {
  std::uint64_t tensors = 0, elements = 0, bytes = 0;
  void add(const PlannedTensor& planned) {
    ++tensors;
    elements += planned.source->elements();
    bytes += planned.bytes;
  }
};

std::string fallbacks_text(const ConversionPlan& plan) {
  std::vector<TensorRow> rows;
  for (const PlannedTensor& planned : plan.tensors) {
    if (planned.wanted == nullptr) continue;
    const std::string note =
        fmt::format("instead of {}, whose blocks of {} do not divide {}", planned.wanted->name,
                    planned.wanted->block_elems, planned.source->dims[0]);
    rows.push_back(
        {std::string(planned.source->name), planned.source->dims, planned.type, planned.bytes, note});
  }
  if (rows.empty()) return {};
  const std::size_t count = rows.size();
  return fmt::format("\nFallbacks ({} tensors)\n{}", count, tensor_table(group_layers(std::move(rows))));
}

std::string requantised_text(const ConversionPlan& plan) {
  std::map<std::string_view, std::uint64_t> from;
  for (const PlannedTensor& planned : plan.tensors) {
    if (planned.requantised()) ++from[planned.source->type().name];
  }
  if (from.empty()) return {};
  std::string list;
  for (const auto& [name, count] : from)
    list += fmt::format("{}{} from {}", list.empty() ? "" : ", ", count, name);
  return fmt::format(
      "\nNote: requantised ({}): what those formats lost does not come back; convert from f16 or bf16 "
      "where you can.\n",
      list);
}

std::string report_text(const ModelFile& file, const ConversionPlan& plan, const ConvertFlags& flags) {
  std::map<std::uint32_t, Sum> by_type;
  std::uint64_t source_bytes = 0;
  for (const PlannedTensor& planned : plan.tensors) {
    by_type[planned.type->id].add(planned);
    source_bytes += planned.source->bytes();
  }
  std::vector<TypeRow> rows;
  rows.reserve(by_type.size());
  for (const auto& [id, sum] : by_type) {
    rows.push_back({std::string(formats::find_gguf_type(id)->name), sum.tensors, sum.elements, sum.bytes});
  }
  std::string out = fmt::format("{} -> {}{}\n\n", file.path().string(), flags.output,
                                flags.dry_run ? " (dry run: nothing is written)" : "");
  out += type_table(std::move(rows));
  out += fallbacks_text(plan);
  out += requantised_text(plan);
  const double before = plan.elements == 0 ? 0.0 : 8.0 * double(source_bytes) / double(plan.elements);
  out += fmt::format("\n{} at {:.2f} bits a weight -> {} at {:.2f}\n", human_bytes(double(source_bytes)),
                     before, human_bytes(double(plan.bytes)), plan.bits_per_weight());
  return out;
}

std::string report_json(const ModelFile& file, const ConversionPlan& plan, const ConvertFlags& flags) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const PlannedTensor& planned : plan.tensors) {
    nlohmann::ordered_json tensor = {{"name", printable(planned.source->name, 4096)},
                                     {"shape", planned.source->dims},
                                     {"from", planned.source->type().name},
                                     {"to", planned.type->name},
                                     {"bits_per_weight", planned.type->bits_per_weight()},
                                     {"bytes", planned.bytes}};
    if (planned.wanted != nullptr) tensor["fallback_for"] = planned.wanted->name;
    tensors.push_back(std::move(tensor));
  }
  const nlohmann::ordered_json json = {{"input", file.path().string()},
                                       {"output", flags.output},
                                       {"type", block_format(plan.target).name},
                                       {"written", !flags.dry_run},
                                       {"bits_per_weight", plan.bits_per_weight()},
                                       {"bytes", plan.bytes},
                                       {"weights", plan.elements},
                                       {"tensors", std::move(tensors)}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Status carry_out(const ModelFile& file, const ConversionPlan& plan, const ConvertFlags& flags) {
  LITHE_RETURN_IF_ERROR(check_output(file, flags.output, plan.bytes));
  watch_interrupts();
  LITHE_ASSIGN_OR_RETURN(const auto pool,
                         ThreadPool::create(flags.threads > 0 ? flags.threads : default_threads()));
  std::uint64_t source_bytes = 0;
  for (const PlannedTensor& planned : plan.tensors) source_bytes += planned.source->bytes();
  Progress bar("Converting", double(source_bytes));
  return formats::convert(file, plan, flags.output, *pool, [&](std::uint64_t bytes, std::string_view tensor) {
    bar.advance(double(bytes));
    bar.note(std::string(tensor));
    return !interrupted();
  });
}

Status run_convert(const ConvertFlags& flags) {
  if (flags.type.empty() && !flags.hf)
    return invalid("`lithe convert` needs --type: see `lithe convert --help`");
  std::optional<DType> type;
  if (!flags.type.empty()) {
    LITHE_ASSIGN_OR_RETURN(type, parse_type(flags.type));
  }
  LITHE_ASSIGN_OR_RETURN(const auto opened, models::open_model(flags.input));
  const ModelFile& file = *opened;
  if (flags.hf) {
    Status status =
        convert_to_hf(file, flags.output, type, {flags.shard_size, flags.threads, flags.dry_run, flags.json});
    return status.ok() ? Status() : std::move(status).with_context(flags.input);
  }
  const DType target = *type;
  auto plan = formats::plan_conversion(file, target, flags.pure);
  if (!plan.ok()) return std::move(plan).status().with_context(flags.input);
  if (plan->tensors.empty())
    log_warning("{} holds a vocabulary and no tensors: only its metadata is copied", flags.input);
  if (!flags.dry_run) {
    Status status = carry_out(file, *plan, flags);
    if (!status.ok()) return std::move(status).with_context(flags.input);
  }
  return print(flags.json ? report_json(file, *plan, flags) : report_text(file, *plan, flags));
}

}  // namespace

Run add_convert(CLI::App& app) {
  auto flags = std::make_shared<ConvertFlags>();
  app.add_option("input", flags->input,
                 "Model: a GGUF file (any shard of a split) or a Hugging Face directory")
      ->required()
      ->type_name("IN");
  app.add_option("output", flags->output,
                 "GGUF file to write, with --hf a folder; appears only when complete")
      ->required()
      ->type_name("OUT");
  app.add_option("--type,--outtype", flags->type, "Type of the weights: " + type_names())->type_name("TYPE");
  app.add_flag("--hf", flags->hf,
               "Write a directory for Hugging Face Transformers: config.json, safetensors, tokenizer. --type "
               "f32, f16 or "
               "bf16; default: the type of the input, f16 where it is quantised");
  app.add_option("--max-shard-size", flags->shard_size, "With --hf, bytes of one safetensors file at most")
      ->capture_default_str()
      ->type_name("SIZE");
  app.add_flag("--pure", flags->pure, "The output head in the same type too, instead of q6_k or q8_0");
  app.add_flag("--dry-run", flags->dry_run, "Show what would be written");
  app.add_option("-t,--threads", flags->threads,
                 "Threads; default: physical cores within the cgroup quota and affinity")
      ->transform(whole_number(0, 1024));
  app.add_flag("--json", flags->json, "Report every tensor as JSON");
  app.footer(
      "Examples:\n"
      "  lithe convert model.F16.gguf model.Q8_0.gguf --type q8_0\n"
      "  lithe convert hf-model/ model.BF16.gguf --type bf16\n"
      "  lithe convert model.Q8_0.gguf hf-model/ --hf --type bf16");
  return [flags] { return run_convert(*flags); };
}

}  // namespace lithe::app
