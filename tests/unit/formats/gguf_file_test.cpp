// What the writer writes the reader reads; splits are joined or refused; typed access says what is wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "formats/gguf.h"
#include "gguf_bytes.h"

namespace lithe::formats {
namespace {

using Dims = std::vector<std::uint64_t>;

std::string bytes_of(std::size_t count, char first) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>(first + static_cast<char>(i % 101));
  return out;
}

void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(GgufWriter, RoundTripsEveryKindOfValueAndFormat) {
  TemporaryFolder folder;
  GgufWriter writer;
  writer.add_metadata("bool", true);
  writer.add_metadata("i32", std::int32_t{-5});
  writer.add_metadata("u32", std::uint32_t{4000000000u});
  writer.add_metadata("i64", std::int64_t{-5000000000});
  writer.add_metadata("u64", std::uint64_t{1} << 63);
  writer.add_metadata("f32", 0.1f);
  writer.add_metadata("f64", 0.1);
  writer.add_metadata("string", "h\xc3\xa9llo");
  writer.add_metadata("ints", std::vector<std::int32_t>{1, -2, 3});
  writer.add_metadata("uints", std::vector<std::uint32_t>{4000000000u});
  writer.add_metadata("floats", std::vector<float>{0.5f, std::nanf("")});
  writer.add_metadata("strings", std::vector<std::string>{"", "a\0b", "\xff"});
  writer.add_metadata("none", std::vector<std::string>{});
  writer.add_metadata("again", "first");
  writer.add_metadata("again", std::uint32_t{2});
  std::vector<std::string> contents;
  for (const BlockFormat& format : block_formats()) {
    const Dims dims = {static_cast<std::uint64_t>(format.block_elems) * 3, 5};
    writer.add_tensor(std::string(format.name), format.dtype, dims);
    contents.push_back(
        bytes_of(static_cast<std::size_t>(format.block_bytes) * 15, static_cast<char>(contents.size())));
  }
  expect_ok(writer.begin(folder / "m.gguf"));
  for (const auto& data : contents) {
    const auto half = data.size() / 2;
    expect_ok(writer.write_tensor(as_bytes(data).first(half)));
    expect_ok(writer.write_tensor(as_bytes(data).subspan(half)));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf")) << "before commit";
  expect_ok(writer.commit());

  const auto file = GgufFile::open(folder / "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto& metadata = file->metadata().values();
  EXPECT_EQ(metadata.size(), 14u);
  EXPECT_EQ(std::get<bool>(metadata.at("bool")), true);
  EXPECT_EQ(std::get<std::int64_t>(metadata.at("i32")), -5);
  EXPECT_EQ(std::get<std::uint64_t>(metadata.at("u32")), 4000000000u);
  EXPECT_EQ(std::get<std::int64_t>(metadata.at("i64")), -5000000000);
  EXPECT_EQ(std::get<std::uint64_t>(metadata.at("u64")), std::uint64_t{1} << 63);
  EXPECT_EQ(std::get<double>(metadata.at("f32")), double{0.1f});
  EXPECT_EQ(std::get<double>(metadata.at("f64")), 0.1);
  EXPECT_EQ(std::get<std::string_view>(metadata.at("string")), "h\xc3\xa9llo");
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(metadata.at("ints")), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(metadata.at("uints")),
            (std::vector<std::int64_t>{4000000000}));
  EXPECT_EQ(std::get<std::vector<double>>(metadata.at("floats"))[0], 0.5);
  EXPECT_EQ(std::get<std::vector<std::string_view>>(metadata.at("strings"))[2], "\xff");
  EXPECT_TRUE(std::get<std::vector<std::string_view>>(metadata.at("none")).empty());
  EXPECT_EQ(std::get<std::uint64_t>(metadata.at("again")), 2u);
  ASSERT_EQ(file->tensors().size(), contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const GgufTensor& tensor = file->tensors()[i];
    EXPECT_EQ(tensor.format, &block_formats()[i]);
    EXPECT_EQ(file->find_tensor(tensor.name), &tensor);
    EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), as_bytes(contents[i]).begin(),
                           as_bytes(contents[i]).end()));
    file->release(tensor);
    EXPECT_EQ(std::memcmp(tensor.data.data(), contents[i].data(), contents[i].size()), 0)
        << "readable after release";
  }
  EXPECT_EQ(file->find_tensor("no.such"), nullptr);

  // A copy, pair by pair and tensor by tensor, is the same file.
  GgufWriter copy;
  for (const GgufPair& pair : file->metadata().pairs()) copy.copy_metadata(pair);
  for (const GgufTensor& tensor : file->tensors())
    copy.add_tensor(std::string(tensor.name), tensor.type(), tensor.dims);
  expect_ok(copy.begin(folder / "copy.gguf"));
  for (const GgufTensor& tensor : file->tensors()) expect_ok(copy.write_tensor(tensor.data));
  expect_ok(copy.commit());
  EXPECT_EQ(slurp(folder / "copy.gguf"), slurp(folder / "m.gguf"));
}

TEST(GgufWriter, CopiesPairsOfEveryTypeByteForByte) {
  GgufBytes source;
  source.head(0, 12);
  source.key("u8", 0).number<std::uint8_t>(1).key("i8", 1).number<std::int8_t>(-1);
  source.key("u16", 2).number<std::uint16_t>(65535).key("i16", 3).number<std::int16_t>(-2);
  source.key("f64", 12)
      .number(1e300)
      .key("u64", 10)
      .number<std::uint64_t>(7)
      .key("bool", 7)
      .number<std::uint8_t>(0);
  for (const auto& [type, size] :
       std::vector<std::pair<std::uint32_t, std::size_t>>{{0, 1}, {3, 2}, {7, 1}, {11, 8}, {12, 8}}) {
    source.key("array " + std::to_string(type), 9).number(type).number<std::uint64_t>(3).zeros(3 * size);
  }
  const auto parsed = parse_gguf(source.bytes());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(std::get<std::vector<bool>>(parsed->metadata.at("array 7")).size(), 3u);
  TemporaryFolder folder;
  GgufWriter writer;
  for (const GgufPair& pair : parsed->pairs) writer.copy_metadata(pair);
  expect_ok(writer.begin(folder / "m.gguf"));
  expect_ok(writer.commit());
  EXPECT_EQ(slurp(folder / "m.gguf"), source.pad().text());
}

TEST(GgufWriter, RefusesWhatNoReaderWouldTake) {
  TemporaryFolder folder;
  const auto status_of = [&](std::string name, DType dtype, Dims dims, bool twice = false) {
    GgufWriter writer;
    writer.add_tensor(name, dtype, dims);
    if (twice) writer.add_tensor(name, dtype, dims);
    return writer.begin(folder / "m.gguf");
  };
  EXPECT_EQ(status_of("t", DType::q4_k, {576, 2}).code(), Code::invalid_argument);
  EXPECT_EQ(status_of("t", DType::f32, {8, 0}).code(), Code::invalid_argument);
  EXPECT_EQ(status_of("t", DType::f32, {1ull << 40, 1ull << 40}).code(), Code::invalid_argument);
  EXPECT_EQ(status_of("", DType::f32, {8}).code(), Code::invalid_argument);
  EXPECT_EQ(status_of("t", DType::f32, {8}, true).code(), Code::invalid_argument);
  EXPECT_EQ(status_of("t", DType::f32, {1, 1, 1, 1, 1}).code(), Code::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(GgufFile, TypedAccessSaysWhatIsWrong) {
  TemporaryFolder folder;
  GgufWriter writer;
  writer.add_metadata("n", std::uint32_t{7});
  writer.add_metadata("minus", std::int32_t{-7});
  writer.add_metadata("x", 0.5f);
  writer.add_metadata("yes", true);
  writer.add_metadata("name", "llama");
  writer.add_metadata("list", std::vector<std::int32_t>{1, 2});
  expect_ok(writer.begin(folder / "m.gguf"));
  expect_ok(writer.commit());
  const auto file = GgufFile::open(folder / "m.gguf");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(**file->metadata().optional_uint("n"), 7u);
  EXPECT_EQ(**file->metadata().optional_float("n"), 7.0);
  EXPECT_EQ(**file->metadata().optional_float("x"), 0.5);
  EXPECT_EQ(**file->metadata().optional_bool("yes"), true);
  EXPECT_EQ(**file->metadata().optional_string("name"), "llama");
  EXPECT_EQ(file->metadata().int_array("list")->size(), 2u);
  EXPECT_EQ(file->metadata().string_array("list"), nullptr);
  EXPECT_FALSE(file->metadata().optional_uint("absent")->has_value());
  EXPECT_EQ(file->metadata().optional_uint("minus").status().code(), Code::corrupt);
  EXPECT_EQ(file->metadata().optional_uint("x").status().message(),
            "x is a float, expected an unsigned integer");
  EXPECT_EQ(file->metadata().optional_bool("n").status().code(), Code::corrupt);
  EXPECT_EQ(file->metadata().optional_string("yes").status().code(), Code::corrupt);
  EXPECT_NE(file->metadata().required_uint("absent").status().message().find("it has no key absent"),
            std::string::npos);
}

TEST(GgufFile, NamesTheFileThatIsMissingOrNoFile) {
  TemporaryFolder folder;
  EXPECT_EQ(GgufFile::open(folder / "none.gguf").status().code(), Code::not_found);
  EXPECT_FALSE(GgufFile::open(folder.path()).ok());
  spill(folder / "text.gguf", "hello, world");
  EXPECT_NE(GgufFile::open(folder / "text.gguf").status().message().find("text.gguf: it is not a GGUF"),
            std::string::npos);
}

// ---------------------------------------------------------------- splits

struct ShardOptions {
  std::uint16_t number = 0, count = 3;
  std::int32_t tensors = 4;
  std::vector<std::string> names;
};

void write_shard(const std::filesystem::path& path, const ShardOptions& options) {
  GgufWriter writer;
  if (options.number == 0) writer.add_metadata("general.architecture", "llama");
  GgufBytes keys;
  keys.head(0, 2).key("split.no", 2).number(options.number).key("split.count", 2).number(options.count);
  const auto parsed = parse_gguf(keys.bytes());
  for (const GgufPair& pair : parsed->pairs) writer.copy_metadata(pair);
  writer.add_metadata("split.tensors.count", options.tensors);
  for (const auto& name : options.names) writer.add_tensor(name, DType::f32, {8});
  expect_ok(writer.begin(path));
  for (const auto& name : options.names) expect_ok(writer.write_tensor(as_bytes(bytes_of(32, name[0]))));
  expect_ok(writer.commit());
}

class Split : public ::testing::Test {
 protected:
  std::string name(int number, int count = 3) const {
    return fmt::format("m-{:05d}-of-{:05d}.gguf", number, count);
  }
  void SetUp() override {
    write_shard(folder_ / name(1), {0, 3, 4, {}});
    write_shard(folder_ / name(2), {1, 3, 4, {"a", "b"}});
    write_shard(folder_ / name(3), {2, 3, 4, {"c", "d"}});
  }
  void expect_refused(int opened, const std::string& message) const {
    const auto file = GgufFile::open(folder_ / name(opened));
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.status().message().find(message), std::string::npos) << file.status().message();
  }
  TemporaryFolder folder_;
};

TEST_F(Split, OpensFromAnyShard) {
  for (const int opened : {1, 2, 3}) {
    const auto file = GgufFile::open(folder_ / name(opened));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->shard_count(), 3);
    EXPECT_EQ(file->tensors().size(), 4u);
    EXPECT_EQ(**file->metadata().optional_string("general.architecture"), "llama");
    EXPECT_EQ(file->find_tensor("c")->shard, 2);
    EXPECT_EQ(static_cast<char>(file->find_tensor("d")->data[0]), 'd');
    EXPECT_EQ(file->path().filename(), name(1));
    file->release(*file->find_tensor("d"));
  }
}

TEST_F(Split, NamesAMissingShard) {
  std::filesystem::remove(folder_ / name(2));
  expect_refused(1, name(2) + " is missing");
  expect_refused(3, name(2) + " is missing");
}

TEST_F(Split, NamesABrokenShard) {
  const auto text = slurp(folder_ / name(3));
  spill(folder_ / name(3), std::string_view(text).substr(0, text.size() - 1));
  expect_refused(1, name(3) + ": tensor 'd' does not fit");
}

TEST_F(Split, RefusesForeignShards) {
  write_shard(folder_ / name(2), {1, 5, 4, {"a", "b"}});
  expect_refused(1, name(2) + ": it says it is one of 5 shards");
  write_shard(folder_ / name(2), {2, 3, 4, {"a", "b"}});
  expect_refused(1, name(2) + ": its name says shard 2, its metadata shard 3");
  write_shard(folder_ / name(2), {1, 3, 9, {"a", "b"}});
  expect_refused(1, name(2) + ": it belongs to a model of 9 tensors");
  write_shard(folder_ / name(2), {1, 3, 4, {"a", "c"}});
  expect_refused(1, name(3) + ": tensor 'c' is in another shard too");
  write_shard(folder_ / name(2), {1, 3, 4, {"a"}});
  expect_refused(1, "hold 3 tensors, its metadata says 4");
}

TEST_F(Split, RefusesNamesThatDoNotSayTheirNumber) {
  std::filesystem::rename(folder_ / name(1), folder_ / "renamed.gguf");
  const auto file = GgufFile::open(folder_ / "renamed.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("must end in -00001-of-00003.gguf"), std::string::npos)
      << file.status().message();
}

TEST_F(Split, AStrayShardOfAnotherCountIsNotTouched) {
  spill(folder_ / name(4), "stray");
  spill(folder_ / name(1, 4), "stray");
  EXPECT_TRUE(GgufFile::open(folder_ / name(1)).ok());
}

}  // namespace
}  // namespace lithe::formats
