#include "inspect_hf.h"

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/log.h"
#include "base/text.h"
#include "console.h"
#include "formats/hf_directory.h"
#include "tensor_table.h"

namespace lithe::app {
namespace {

using formats::HfDirectory;
using formats::SafetensorsTensor;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kShownText = 72;  // columns of a value

/// The types of a checkpoint in the form that the tables show.
class Types {
 public:
  const formats::GgufType* of(const SafetensorsTensor& tensor) {
    const auto [at, is_new] = types_.try_emplace(tensor.type_name);
    if (is_new) {
      const std::uint32_t bits = tensor.type != nullptr ? tensor.type->bits : 0;
      const std::uint32_t bytes = std::lcm(bits, 8u) / 8;
      at->second = {0, at->first, bits == 0 ? 1 : bytes * 8 / bits, bytes};
    }
    return &at->second;
  }

 private:
  std::map<std::string, formats::GgufType> types_;
};

std::vector<TypeRow> sum_types(const HfDirectory& directory) {
  std::map<std::string, TypeRow> rows;
  for (const SafetensorsTensor& tensor : directory.tensors()) {
    TypeRow& row = rows[tensor.type_name];
    row.name = printable(tensor.type_name, 20);
    ++row.tensors;
    row.elements += tensor.elements();
    row.bytes += tensor.data.size();
  }
  std::vector<TypeRow> out;
  out.reserve(rows.size());
  for (auto& [name, row] : rows) out.push_back(std::move(row));
  return out;
}

std::string config_text(const Json& config) {
  std::size_t width = 0;
  for (const auto& [key, value] : config.items()) width = std::max(width, printable(key).size());
  std::string out = fmt::format("Configuration ({})\n", config.size());
  for (const auto& [key, value] : config.items()) {
    const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    out += fmt::format("  {:<{}}  {}\n", printable(key), width, printable(text, kShownText));
  }
  return out;
}

std::string tensors_text(const HfDirectory& directory, bool all) {
  Types types;
  std::vector<TensorRow> rows;
  for (const SafetensorsTensor& tensor : directory.tensors())
    rows.push_back({tensor.name, tensor.shape, types.of(tensor), tensor.data.size(), ""});
  if (!all) rows = group_layers(std::move(rows));
  return fmt::format("Tensors ({}), the contiguous axis last\n{}\n{}", directory.tensors().size(),
                     type_table(sum_types(directory)), tensor_table(rows));
}

std::string text_of(const HfDirectory& directory, const Status& reason, bool all) {
  const std::size_t files = directory.shard_paths().size();
  std::string out = fmt::format("{}\nHugging Face directory, {} in {} file{}\n\nModel\n  {:<14} no: {}\n\n",
                                directory.path().string(), human_bytes(double(directory.file_bytes())), files,
                                files == 1 ? "" : "s", "runs", reason.message());
  return out + config_text(directory.config()) + "\n" + tensors_text(directory, all);
}

std::string json_of(const HfDirectory& directory, const Status& reason) {
  OrderedJson tensors = OrderedJson::array(), types = OrderedJson::object();
  for (const SafetensorsTensor& tensor : directory.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"shape", tensor.shape},
                       {"type", tensor.type_name},
                       {"bytes", tensor.data.size()},
                       {"shard", tensor.shard}});
  }
  for (const TypeRow& row : sum_types(directory))
    types[row.name] = {{"tensors", row.tensors}, {"weights", row.elements}, {"bytes", row.bytes}};
  const OrderedJson json = {{"path", directory.path().string()},
                            {"format", "Hugging Face directory"},
                            {"shards", directory.shard_paths().size()},
                            {"file_bytes", directory.file_bytes()},
                            {"runs", false},
                            {"problems", {reason.message()}},
                            {"types", std::move(types)},
                            {"config", OrderedJson(directory.config())},
                            {"tensors", std::move(tensors)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

Status inspect_hf_directory(const std::filesystem::path& folder, const Status& reason, bool all, bool json) {
  LITHE_ASSIGN_OR_RETURN(const HfDirectory directory, HfDirectory::open(folder));
  for (const std::string& warning : directory.warnings()) log_warning("{}", warning);
  return print(json ? json_of(directory, reason) : text_of(directory, reason, all));
}

}  // namespace lithe::app
