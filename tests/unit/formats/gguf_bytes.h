// Builds the bytes of GGUF files by hand, right or wrong, for the tests of the parser.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lithe::formats {

class GgufBytes {
 public:
  template <typename T>
  GgufBytes& number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    text_.append(raw, sizeof(T));
    return *this;
  }
  GgufBytes& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  GgufBytes& string(std::string_view text) { return number<std::uint64_t>(text.size()).raw(text); }
  GgufBytes& head(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
    return raw("GGUF").number(version).number(tensors).number(pairs);
  }
  /// A key and its type; the value follows.
  GgufBytes& key(std::string_view name, std::uint32_t type) { return string(name).number(type); }
  GgufBytes& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
                    std::uint64_t offset) {
    string(name).number(static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) number(dim);
    return number(type).number(offset);
  }
  GgufBytes& pad(std::size_t alignment = 32) {
    while (text_.size() % alignment != 0) text_ += '\0';
    return *this;
  }
  GgufBytes& zeros(std::size_t count) {
    text_.append(count, '\0');
    return *this;
  }

  const std::string& text() const { return text_; }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(text_.data(), text_.size())); }

 private:
  std::string text_;
};

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lithe-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void spill(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace lithe::formats
