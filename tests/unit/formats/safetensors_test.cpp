// What the writer writes the parser reads; every way in which a file can contradict itself is refused by name.
#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "gguf_bytes.h"

namespace lithe::formats {
namespace {

std::string file_of(const std::string& header, std::size_t data, std::uint64_t length) {
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  out += header;
  for (std::size_t i = 0; i < data; ++i) out += static_cast<char>('a' + i % 26);
  return out;
}
std::string file_of(const std::string& header, std::size_t data) {
  return file_of(header, data, header.size());
}

std::string entry(const std::string& name, const std::string& rest) {
  return "\"" + name + "\":{" + rest + "}";
}
std::string f32(const std::string& name, const std::string& shape, std::uint64_t begin, std::uint64_t end) {
  return entry(name, fmt::format(R"("dtype":"F32","shape":[{}],"data_offsets":[{},{}])", shape, begin, end));
}

void refused(const std::string& file, Code code, std::string_view part) {
  const auto parsed = parse_safetensors(as_bytes(file));
  ASSERT_FALSE(parsed.ok()) << "expected: " << part;
  EXPECT_EQ(parsed.status().code(), code) << parsed.status().message();
  EXPECT_NE(parsed.status().message().find(part), std::string::npos)
      << "got: " << parsed.status().message() << "\nexpected: " << part;
}
void corrupt_header(const std::string& header, std::size_t data, std::string_view part) {
  refused(file_of(header, data), Code::corrupt, part);
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\",\"\":\"x\"}," + f32("b", "2,1", 8, 16) +
                             "," + f32("empty", "0,7", 8, 8) + "," + f32("a", "2", 0, 8) + "," +
                             entry("scalar", R"("shape":[],"data_offsets":[16,18],"dtype":"BF16")") + "}   ";
  const std::string file = file_of(header, 18);
  const auto parsed = parse_safetensors(as_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->metadata.at("format"), "pt");
  ASSERT_EQ(parsed->tensors.size(), 4u);
  EXPECT_EQ(parsed->tensors[0].name, "a");
  EXPECT_EQ(parsed->tensors[1].name, "empty");
  EXPECT_EQ(parsed->tensors[1].elements(), 0u);
  EXPECT_TRUE(parsed->tensors[1].data.empty());
  EXPECT_EQ(parsed->tensors[2].shape, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(parsed->tensors[2].data.data(), as_bytes(file).data() + 8 + header.size() + 8);
  EXPECT_EQ(parsed->tensors[3].type->dtype, DType::bf16);
  EXPECT_EQ(parsed->tensors[3].elements(), 1u);
  EXPECT_TRUE(parse_safetensors(as_bytes(file_of("{}", 0))).ok()) << "no tensors at all";
}

TEST(Safetensors, ChecksTheSizeOfEveryTypeItKnows) {
  const struct {
    const char* name;
    int bits;
  } kTypes[] = {{"F64", 64},    {"F32", 32}, {"F16", 16}, {"BF16", 16},  {"F8_E4M3", 8},
                {"F8_E5M2", 8}, {"I64", 64}, {"I32", 32}, {"I16", 16},   {"I8", 8},
                {"U8", 8},      {"BOOL", 8}, {"F4", 4},   {"F6_E2M3", 6}};
  for (const auto& type : kTypes) {
    const auto header = [&](int bytes) {
      return "{" +
             entry("t",
                   fmt::format(R"("dtype":"{}","shape":[2,4],"data_offsets":[0,{}])", type.name, bytes)) +
             "}";
    };
    const auto bytes = static_cast<std::size_t>(type.bits);  // of eight values
    EXPECT_TRUE(parse_safetensors(as_bytes(file_of(header(type.bits), bytes))).ok()) << type.name;
    corrupt_header(header(type.bits + 1), bytes + 1,
                   "tensor 't' of type " + std::string(type.name) + " and shape [2, 4] spans");
  }
}

TEST(Safetensors, ListsATypeItDoesNotKnow) {
  const auto file = file_of(
      "{" + entry("t", R"("dtype":"F5_X","shape":[3],"data_offsets":[0,2],"more":{"a":[1,{}]})") + "}", 2);
  const auto parsed = parse_safetensors(as_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->tensors[0].type, nullptr);
  EXPECT_EQ(parsed->tensors[0].type_name, "F5_X");
  EXPECT_EQ(parsed->tensors[0].data.size(), 2u);
}

TEST(Safetensors, RefusesAFileThatIsTooShortOrAnother) {
  for (std::size_t size = 0; size < 8; ++size) refused(std::string(size, '\1'), Code::corrupt, "too few");
  refused(std::string(8, '\1'), Code::corrupt, "no header begins");
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:12\n", Code::corrupt, "Git LFS");
  refused(file_of(" {}", 0), Code::corrupt, "no header begins");
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 63, std::uint64_t{100000001}})
    refused(file_of("{}", 0, length), Code::unsupported, fmt::format("a header of {} bytes", length));
  refused(file_of("{}", 0, 3), Code::corrupt, "3 bytes, but 2 are left");
  refused(file_of("{}", 0, 100'000'000), Code::corrupt, "2 are left");
  refused(file_of("{}", 0, 1), Code::corrupt, "not valid JSON");
  refused(file_of("{}", 0, 0), Code::corrupt, "not valid JSON");
}

TEST(Safetensors, RefusesAHeaderOfAnotherShape) {
  corrupt_header("{\"a\":3}", 0, "tensor 'a' is a number instead of an object");
  corrupt_header("{\"a\":[]}", 0, "tensor 'a' is an array");
  corrupt_header("{\"a\":null}", 0, "tensor 'a' is null");
  corrupt_header("{\"\":{}}", 0, "has no name");
  corrupt_header("{\"a\":{}}", 0, "tensor 'a' has no dtype");
  corrupt_header("{" + entry("a", R"("dtype":"F32","shape":[])") + "}", 0, "no two data_offsets");
  corrupt_header("{" + entry("a", R"("dtype":"F32","data_offsets":[0,0])") + "}", 0, "no shape");
  corrupt_header("{" + entry("a", R"("dtype":7)") + "}", 0, "a number where its dtype should stand");
  corrupt_header("{" + entry("a", R"("shape":"x")") + "}", 0, "a string where its shape");
  corrupt_header("{" + entry("a", R"("shape":[-1])") + "}", 0,
                 "the shape of tensor 'a' contains a negative number");
  corrupt_header("{" + entry("a", R"("shape":[1.5])") + "}", 0, "not whole or too large");
  corrupt_header("{" + entry("a", R"("shape":[18446744073709551616])") + "}", 0, "not whole or too large");
  corrupt_header("{" + entry("a", R"("shape":[[1]])") + "}", 0, "contains an array");
  corrupt_header("{" + entry("a", R"("data_offsets":[0])") + "}", 0, "no dtype");
  corrupt_header("{" + entry("a", R"("dtype":"F32","shape":[],"data_offsets":[0,4,8])") + "}", 8,
                 "more than two");
  corrupt_header(R"({"__metadata__":{"a":1}})", 0, "metadata 'a' is a number instead of a string");
  corrupt_header(R"({"__metadata__":{"a":{}}})", 0, "metadata 'a' is an object");
  corrupt_header(R"({"__metadata__":"x"})", 0, "its __metadata__ is a string instead of an object");
  corrupt_header("{\"a\":{\"x\":" + std::string(100000, '['), 0, "nested more than 32 deep");
  corrupt_header("{\"a\xff\":{}}", 0, "not valid JSON");
  corrupt_header("{}}", 0, "not valid JSON");
  refused(file_of("{" + f32("a", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 0, 4) + "}", 4), Code::unsupported,
          "16 axes");
}

TEST(Safetensors, RefusesWhatAppearsTwice) {
  corrupt_header("{" + f32("a", "1", 0, 4) + "," + f32("a", "1", 4, 8) + "}", 8, "tensor 'a' appears twice");
  corrupt_header(R"({"__metadata__":{},"__metadata__":{}})", 0, "two __metadata__");
  corrupt_header(R"({"__metadata__":{"k":"1","k":"1"}})", 0, "metadata 'k' appears twice");
  corrupt_header("{" + entry("a", R"("dtype":"F32","dtype":"F32")") + "}", 0, "two dtype");
  corrupt_header("{" + entry("a", R"("shape":[],"shape":[1])") + "}", 0, "two shape");
  corrupt_header("{" + entry("a", R"("data_offsets":[0,4],"data_offsets":[0,4])") + "}", 4,
                 "two data_offsets");
}

TEST(Safetensors, RefusesOffsetsThatLie) {
  corrupt_header("{" + f32("a", "1", 4, 0) + "}", 4, "tensor 'a' begins at 4 and ends at 0");
  corrupt_header("{" + f32("a", "1", 4, 8) + "}", 8,
                 "tensor 'a' begins at 4, with a gap after the start of the data");
  corrupt_header("{" + f32("a", "2", 0, 8) + "," + f32("b", "1", 4, 8) + "}", 8,
                 "tensor 'b' begins at 4, inside 'a'");
  corrupt_header("{" + f32("a", "2", 0, 8) + "," + f32("b", "2", 0, 8) + "}", 8, "inside");
  corrupt_header("{" + f32("a", "1", 0, 4) + "," + f32("b", "1", 8, 12) + "}", 12,
                 "tensor 'b' begins at 8, with a gap after 'a'");
  corrupt_header("{" + f32("a", "2", 0, 8) + "}", 7, "tensor 'a' does not fit");
  corrupt_header("{" + f32("a", "2", 0, 8) + "}", 9, "1 bytes follow tensor 'a'");
  corrupt_header("{}", 1, "1 bytes follow the header");
  corrupt_header("{" + f32("a", "2", 0, 4) + "}", 4, "tensor 'a' of type F32 and shape [2] spans 4 bytes");
  corrupt_header("{" + f32("a", "4611686018427387904", 0, 0) + "}", 0, "spans 0 bytes");
  corrupt_header("{" + f32("a", "4294967296,4294967296", 0, 0) + "}", 0, "overflows");
  corrupt_header("{" + f32("a", "1", 18446744073709551612u, 0) + "}", 4,
                 "begins at 18446744073709551612 and ends at 0");
  corrupt_header("{" + f32("a", "1", 18446744073709551608u, 18446744073709551612u) + "}", 4, "with a gap");
}

// Field case 22: cut anywhere, it is an error within the header or one that names a tensor.
TEST(Safetensors, RefusesEveryCut) {
  const std::string header = "{" + f32("first", "3", 0, 12) + "," + f32("last", "2", 12, 20) + "}";
  const std::string whole = file_of(header, 20);
  ASSERT_TRUE(parse_safetensors(as_bytes(whole)).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto parsed = parse_safetensors(as_bytes(whole.substr(0, size)));
    ASSERT_FALSE(parsed.ok()) << size;
    if (size < 8 + header.size()) continue;
    const char* name = size < 8 + header.size() + 12 ? "'first'" : "'last'";
    EXPECT_NE(parsed.status().message().find(name), std::string::npos) << parsed.status().message();
  }
}

std::string contents_of(const std::filesystem::path& path) {
  return *read_file(path);
}

void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SafetensorsWriter, WritesOneFileAlignedToItsTypes) {
  TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.add_metadata("made", "by us");
  writer.add_tensor("half", *find_safetensors_type(DType::bf16), {3});
  writer.add_tensor("none", *find_safetensors_type(DType::f32), {0, 4});
  writer.add_tensor("\xe6\x9d\x83\"", *find_safetensors_type(DType::f32), {2, 2});
  expect_ok(writer.begin(folder / "", 1 << 20));
  const std::string half = "123456", full = "abcdefghijklmnop";
  expect_ok(writer.write_tensor(as_bytes(half).first(1)));
  expect_ok(writer.write_tensor(as_bytes(half).subspan(1)));
  expect_ok(writer.write_tensor(as_bytes(full)));
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors")) << "before commit";
  expect_ok(writer.commit());
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors.index.json"));
  const std::string file = contents_of(folder / "model.safetensors");
  const auto parsed = parse_safetensors(as_bytes(file));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"made", "by us"}}));
  ASSERT_EQ(parsed->tensors.size(), 3u);
  EXPECT_EQ(parsed->tensors[1].name, "\xe6\x9d\x83\"") << "the wider type first";
  EXPECT_EQ((parsed->tensors[1].data.data() - as_bytes(file).data()) % 8, 0);
  EXPECT_EQ(std::memcmp(parsed->tensors[1].data.data(), full.data(), full.size()), 0);
  EXPECT_EQ(std::memcmp(parsed->tensors[2].data.data(), half.data(), half.size()), 0);
}

TEST(SafetensorsWriter, CutsShardsBySize) {
  TemporaryFolder folder;
  SafetensorsWriter writer;
  for (const char* name : {"a", "b", "c", "d"})
    writer.add_tensor(name, *find_safetensors_type(DType::f32), {*name == 'c' ? 10u : 2u});
  expect_ok(writer.begin(folder / "", 16));  // a and b; c alone, though too large; d
  EXPECT_EQ(writer.shard_count(), 3);
  EXPECT_EQ(writer.data_bytes(), 64u);
  const std::string data(40, 'x');
  for (const std::size_t size : {8, 8, 40, 8}) expect_ok(writer.write_tensor(as_bytes(data).first(size)));
  expect_ok(writer.commit());
  const std::string index = contents_of(folder / "model.safetensors.index.json");
  EXPECT_NE(index.find("\"c\": \"model-00002-of-00003.safetensors\""), std::string::npos) << index;
  EXPECT_NE(index.find("\"total_size\": 64"), std::string::npos) << index;
  for (int i = 1; i <= 3; ++i) {
    const auto file = contents_of(folder / fmt::format("model-{:05d}-of-00003.safetensors", i));
    EXPECT_TRUE(parse_safetensors(as_bytes(file)).ok());
  }
}

TEST(SafetensorsWriter, RefusesWhatNoReaderWouldTake) {
  TemporaryFolder folder;
  const auto begin = [&](std::vector<std::string> names, std::vector<std::uint64_t> shape,
                         std::string_view type) {
    SafetensorsWriter writer;
    for (auto& name : names) writer.add_tensor(name, *find_safetensors_type(type), shape);
    return writer.begin(folder / "", 1 << 20);
  };
  for (const char* name : {"", "__metadata__", "\xff"})
    EXPECT_EQ(begin({name}, {1}, "F32").code(), Code::invalid_argument);
  EXPECT_EQ(begin({"a", "a"}, {1}, "F32").code(), Code::invalid_argument);
  EXPECT_EQ(begin({"a"}, {std::uint64_t{1} << 62}, "F32").code(), Code::invalid_argument);
  EXPECT_EQ(begin({"a"}, {3}, "F4").code(), Code::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace
}  // namespace lithe::formats
