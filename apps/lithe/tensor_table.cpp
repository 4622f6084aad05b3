#include "tensor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "base/text.h"

namespace lithe::app {
namespace {

struct LayerName {
  std::string_view before, after;  // "blk." and ".attn_q.weight", "model.layers." and ".mlp.up_proj.weight"
  std::uint64_t layer;
};

// At the first part between dots that is a number.
std::optional<LayerName> split_layer(std::string_view name) {
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    std::uint64_t layer = 0;
    const char* begin = name.data() + dot + 1;
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), layer);
    if (error != std::errc() || end == name.data() + name.size() || *end != '.') continue;
    return LayerName{name.substr(0, dot + 1), name.substr(static_cast<std::size_t>(end - name.data())),
                     layer};
  }
  return std::nullopt;
}

double bits_per_weight(std::uint64_t bytes, std::uint64_t elements) {
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

}  // namespace

std::string number_ranges(std::vector<std::uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", numbers[i]);
    if (last > i) out += fmt::format("{}{}", last == i + 1 ? "," : "-", numbers[last]);
    i = last + 1;
  }
  return out;
}

std::vector<TensorRow> group_layers(std::vector<TensorRow> rows) {
  using Key =
      std::tuple<std::string, std::string, std::vector<std::uint64_t>, const formats::GgufType*, std::string>;
  struct Group {
    std::size_t row;
    std::vector<std::uint64_t> layers;
  };
  std::map<Key, Group> groups;
  std::vector<TensorRow> out;
  for (TensorRow& row : rows) {
    const auto name = split_layer(row.name);
    if (!name) {
      out.push_back(std::move(row));
      continue;
    }
    const std::uint64_t layer = name->layer;
    const auto [at, is_new] = groups.try_emplace(Key(name->before, name->after, row.dims, row.type, row.note),
                                                 Group{out.size(), {}});
    at->second.layers.push_back(layer);
    if (is_new) {
      out.push_back(std::move(row));
    } else {
      out[at->second.row].bytes += row.bytes;
      out[at->second.row].count += row.count;
    }
  }
  // A role whose layers differ in type keeps its rows together.
  std::map<std::string, std::size_t> first;
  std::vector<std::pair<std::size_t, std::size_t>> order;  // (first row of the role, row)
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto name = split_layer(out[i].name);
    const auto role =
        first.emplace(name ? fmt::format("{}{{}}{}", name->before, name->after) : out[i].name, i)
            .first->second;
    order.emplace_back(role, i);
  }
  std::sort(order.begin(), order.end());
  for (auto& [key, group] : groups) {
    if (group.layers.size() < 2) continue;
    const std::string layers = number_ranges(std::move(group.layers));
    out[group.row].name = fmt::format("{}{{{}}}{}", std::get<0>(key), layers, std::get<1>(key));
  }
  std::vector<TensorRow> sorted;
  sorted.reserve(order.size());
  for (const auto& [role, row] : order) sorted.push_back(std::move(out[row]));
  return sorted;
}

std::string tensor_table(const std::vector<TensorRow>& rows) {
  std::vector<std::string> names, shapes;
  std::size_t name_width = 0, shape_width = 0;
  for (const TensorRow& row : rows) {
    names.push_back(printable(row.name));
    shapes.push_back(fmt::format("[{}]", fmt::join(row.dims, ", ")));
    name_width = std::max(name_width, names.back().size());
    shape_width = std::max(shape_width, shapes.back().size());
  }
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TensorRow& row = rows[i];
    std::string line =
        fmt::format("  {:<{}}  {:>5}  {:<{}}  {:<8} {:>6.3f} bits  {:>8}  {}", names[i], name_width,
                    row.count > 1 ? fmt::format("x{}", row.count) : "", shapes[i], shape_width,
                    row.type->name, row.type->bits_per_weight(), human_bytes(double(row.bytes)), row.note);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string type_table(std::vector<TypeRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const TypeRow& a, const TypeRow& b) { return a.bytes > b.bytes; });
  TypeRow total{"total"};
  for (const TypeRow& row : rows) {
    total.tensors += row.tensors;
    total.elements += row.elements;
    total.bytes += row.bytes;
  }
  if (rows.size() != 1) rows.push_back(total);
  std::string out = "  type      tensors   weights      bytes  bits/weight\n";
  for (const TypeRow& row : rows) {
    out += fmt::format("  {:<8}  {:>7}  {:>8}  {:>9}  {:>11.3f}\n", row.name, row.tensors,
                       human_count(double(row.elements)), human_bytes(double(row.bytes)),
                       bits_per_weight(row.bytes, row.elements));
  }
  return out;
}

}  // namespace lithe::app
