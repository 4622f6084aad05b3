#include "convert_hf.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "base/cpu.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "console.h"
#include "models/hf/export.h"
#include "values.h"

namespace lithe::app {
namespace {

namespace fs = std::filesystem;
using models::HfExport;

// "5GB": decimal units, as Transformers counts them.
Result<std::uint64_t> parse_size(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 3> kUnits{
      {{"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}}};
  std::string number = text;
  std::uint64_t unit = 1;
  for (const auto& [name, bytes] : kUnits) {
    if (!text.ends_with(name)) continue;
    number = text.substr(0, text.size() - name.size());
    unit = bytes;
  }
  const auto count = parse_integer(number);
  const auto bytes =
      count.ok() && *count > 0 ? checked_mul(static_cast<std::uint64_t>(*count), unit) : std::nullopt;
  if (!bytes)
    return invalid("--max-shard-size {}: a size such as 5GB, 200MB or a number of bytes", in_quotes(text));
  return *bytes;
}

// Before any work: the folder is new or empty, its parent exists and has room.
Status check_folder(const fs::path& folder, std::uint64_t bytes) {
  std::error_code error;
  if (fs::exists(folder, error) && !(fs::is_directory(folder, error) && fs::is_empty(folder, error)))
    return invalid("{} is there already", folder.string());
  fs::path parent = fs::absolute(folder, error).lexically_normal();
  if (!parent.has_filename()) parent = parent.parent_path();
  parent = parent.parent_path();
  if (!fs::is_directory(parent, error)) return invalid("{} is not a folder", parent.string());
  const fs::space_info space = fs::space(parent, error);
  if (!error && space.available < bytes) {
    return exhausted("{} needs {}, and {} has {} left", folder.string(), human_bytes(double(bytes)),
                     parent.string(), human_bytes(double(space.available)));
  }
  return {};
}

std::string report_text(const formats::ModelFile& file, const fs::path& folder, const HfExport& plan,
                        bool dry_run) {
  return fmt::format("{} -> {}{}\n\n  {} tensors in {}, {}\n", file.path().string(), folder.string(),
                     dry_run ? " (dry run: nothing is written)" : "", plan.tensors().size(),
                     block_format(plan.type()).name, human_bytes(double(plan.bytes())));
}

std::string report_json(const formats::ModelFile& file, const fs::path& folder, const HfExport& plan,
                        bool dry_run) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const HfExport::Tensor& tensor : plan.tensors())
    tensors.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  const nlohmann::ordered_json json = {{"input", file.path().string()},
                                       {"output", folder.string()},
                                       {"type", block_format(plan.type()).name},
                                       {"written", !dry_run},
                                       {"bytes", plan.bytes()},
                                       {"config", nlohmann::ordered_json::parse(plan.config())},
                                       {"tensors", std::move(tensors)}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Status convert_to_hf(const formats::ModelFile& file, const fs::path& folder, std::optional<DType> type,
                     const HfOutput& output) {
  LITHE_ASSIGN_OR_RETURN(const std::uint64_t shard_bytes, parse_size(output.shard_size));
  LITHE_ASSIGN_OR_RETURN(const HfExport plan, HfExport::plan(file, type));
  if (!output.dry_run) {
    LITHE_RETURN_IF_ERROR(check_folder(folder, plan.bytes()));
    watch_interrupts();
    LITHE_ASSIGN_OR_RETURN(const auto pool,
                           ThreadPool::create(output.threads > 0 ? output.threads : default_threads()));
    Progress bar("Converting", double(plan.bytes()));
    LITHE_RETURN_IF_ERROR(
        plan.write(folder, shard_bytes, *pool, [&](std::uint64_t bytes, std::string_view tensor) {
          bar.advance(double(bytes));
          bar.note(std::string(tensor));
          return !interrupted();
        }));
  }
  return print(output.json ? report_json(file, folder, plan, output.dry_run)
                           : report_text(file, folder, plan, output.dry_run));
}

}  // namespace lithe::app
