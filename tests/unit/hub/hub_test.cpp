// The pure parts of the hub's client: names, choices, answers, checksums. tests/e2e/test_pull.py has the rest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "hub/digest.h"
#include "hub/http.h"
#include "hub/listing.h"
#include "hub/repo.h"
#include "hub/select.h"

namespace lithe::hub {
namespace {

using Names = std::vector<std::string>;

TEST(Repo, ReadsWhatUsersWrite) {
  const auto all = parse_repo("org/na.me-1_x@refs/pr/3:UD-Q4_K_XL");
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->id, "org/na.me-1_x");
  EXPECT_EQ(all->revision, "refs/pr/3");
  EXPECT_EQ(all->type, "UD-Q4_K_XL");
  EXPECT_EQ(all->text(), "org/na.me-1_x@refs/pr/3:UD-Q4_K_XL");
  EXPECT_EQ(parse_repo("org/name:Q8_0@v1.0")->revision, "v1.0");
  EXPECT_EQ(parse_repo("gpt2")->text(), "gpt2");
  for (const char* text : {"", "/", "a/", "/a", "a/b/c", "../a", "a/..", "a--b/c", "a/b:", "a/b@", "a/b:x/y",
                           "a/b@../c", "a/b@a//b", "a b/c", "a/b:x:y", ".a/b", "a/-b", "a/b\n"}) {
    EXPECT_FALSE(parse_repo(text).ok()) << text;
  }
  EXPECT_TRUE(looks_like_repo("org/name:Q4_0"));
  for (const char* text : {"./org/name", "/org/name", "~/name", "gpt2", "a/b/c.gguf", ""})
    EXPECT_FALSE(looks_like_repo(text)) << text;
}

TEST(Repo, TrustsNoNameOfAServer) {
  for (const char* name : {"a", "a/b.c/d", "\xe6\xa8\xa1\xe5\x9e\x8b.gguf", ".gitattributes", "a b", "..."})
    EXPECT_TRUE(check_file_name(name).ok()) << name;
  for (const std::string& name :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("../a"),
        std::string("a/../b"), std::string("./a"), std::string("a\\b"), std::string("a\n"),
        std::string("a\0b", 3), std::string("\xff"), std::string("a\x1b[2J"), std::string(256, 'a')})
    EXPECT_EQ(check_file_name(name).code(), Code::corrupt) << name;
  EXPECT_EQ(clean_etag("W/\"abc-1\""), "abc-1");
  for (const char* etag : {"", "\"\"", "\"../x\"", "a/b", ".x", "\"a", "a b"})
    EXPECT_EQ(clean_etag(etag), "") << etag;
  EXPECT_TRUE(matches("*.gguf", "a/b.gguf") && matches("a/", "a/b/c") && !matches("*.gguf", "a.bin"));
}

std::string chosen(const Names& names, const Wanted& wanted) {
  const auto selection = select_files(names, wanted);
  return selection.ok() ? fmt::format("{}:{}", fmt::join(selection->files, ","), selection->model)
                        : fmt::format("{}", code_name(selection.status().code()));
}

TEST(Select, ChoosesAFileOfAType) {
  const Names names = {"m-Q4_K_M.gguf",
                       "m.q8_0.gguf",
                       "m-Q4_0_4_4.gguf",
                       "BF16/m-BF16-00002-of-00002.gguf",
                       "BF16/m-BF16-00001-of-00002.gguf",
                       "mmproj-BF16.gguf",
                       "m-Q6_K-00001-of-00002.gguf",
                       "m-UD-Q5_K.gguf",
                       "m-Q5_K.gguf",
                       "imatrix-Q2_K.gguf"};
  EXPECT_EQ(chosen(names, {.type = "q4_k_m"}), "m-Q4_K_M.gguf:m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(names, {.type = "Q8_0"}), "m.q8_0.gguf:m.q8_0.gguf");
  EXPECT_EQ(chosen(names, {.type = "Q4_0"}), "not found") << "Q4_0_4_4 is another type";
  EXPECT_EQ(chosen(names, {.type = "Q4_K"}), "not found");
  EXPECT_EQ(chosen(names, {.type = "Q2_K"}), "not found") << "an importance matrix is no model";
  EXPECT_EQ(
      chosen(names, {.type = "BF16"}),
      "BF16/m-BF16-00001-of-00002.gguf,BF16/m-BF16-00002-of-00002.gguf:BF16/m-BF16-00001-of-00002.gguf");
  EXPECT_EQ(chosen(names, {.type = "Q6_K"}), "not found") << "a part is missing";
  EXPECT_EQ(chosen(names, {.type = "Q5_K"}), "invalid argument") << "two of them";
  EXPECT_EQ(chosen(names, {.type = "Q5_K", .exclude = {"*UD*"}}), "m-Q5_K.gguf:m-Q5_K.gguf");
  EXPECT_EQ(chosen(names, {}), "m-Q4_K_M.gguf:m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(names, {.file = "mmproj-BF16.gguf"}), "mmproj-BF16.gguf:mmproj-BF16.gguf");
  EXPECT_EQ(
      chosen(names, {.file = "BF16/m-BF16-00002-of-00002.gguf"}),
      "BF16/m-BF16-00001-of-00002.gguf,BF16/m-BF16-00002-of-00002.gguf:BF16/m-BF16-00001-of-00002.gguf");
  EXPECT_EQ(chosen({"a-IQ1_S.gguf", "a-IQ2_S.gguf"}, {}), "not found") << "several, none of the usual";
}

TEST(Select, ChoosesWhatBelongsToSafetensors) {
  EXPECT_EQ(chosen({"model.safetensors", "config.json", "x.bin", "m.gguf", "sub/model.safetensors",
                    "tokenizer.model"},
                   {}),
            "config.json,model.safetensors,tokenizer.model:");
  EXPECT_EQ(chosen({"consolidated.safetensors", "params.json"}, {}), "consolidated.safetensors,params.json:");
  EXPECT_EQ(chosen({"1_Pooling/config.json", "2_Dense/config.json", "additional_chat_templates/rag.jinja",
                    "additional_chat_templates/x.md", "model.safetensors", "onnx/config.json"},
                   {}),
            "1_Pooling/config.json,additional_chat_templates/rag.jinja,model.safetensors:");
  EXPECT_EQ(chosen({"pytorch_model.bin", "config.json"}, {}), "unsupported");
  EXPECT_EQ(chosen({"README.md"}, {}), "not found");
  EXPECT_EQ(chosen({}, {}), "not found");
  EXPECT_EQ(chosen({"a.gguf", "b.txt"}, {.include = {"*"}}), "a.gguf,b.txt:a.gguf");
}

TEST(Listing, ReadsBothAnswers) {
  const std::string commit(40, 'a'), sha(64, 'b');
  const auto info = parse_model_info(fmt::format(
      R"({{"sha":"{}","siblings":[{{"rfilename":"a","size":3,"blobId":"{}"}},{{"rfilename":"b","size":7,"blobId":"x","lfs":{{"sha256":"{}","size":9}}}},
         {{"rfilename":"c"}},{{"rfilename":"d","size":-1,"blobId":"e"}}]}})",
      commit, commit, sha));
  ASSERT_TRUE(info.ok()) << info.status().message();
  ASSERT_EQ(info->files.size(), 4u);
  EXPECT_TRUE(info->files[0].known && info->files[0].size == 3 && info->files[0].etag == commit);
  EXPECT_TRUE(info->files[1].known && info->files[1].size == 9 && info->files[1].etag == sha);
  EXPECT_FALSE(info->files[2].known || info->files[3].known);
  EXPECT_FALSE(
      parse_model_info(
          fmt::format(R"({{"sha":"{}","siblings":[{{"rfilename":"a"}},{{"rfilename":"a"}}]}})", commit))
          .ok());
  const auto tree = parse_tree(
      R"([{"type":"directory","path":"x"},{"type":"file","path":"x/y","size":2,"oid":"1f","lfs":null}])");
  ASSERT_TRUE(tree.ok()) << tree.status().message();
  ASSERT_EQ(tree->size(), 1u);
  EXPECT_EQ((*tree)[0].etag, "1f");
  EXPECT_FALSE(parse_tree(R"([{"type":"file","path":"../y"}])").ok());
  EXPECT_FALSE(parse_tree("{}").ok());
  EXPECT_EQ(next_page("<https://h/x?cursor=1>; rel=\"next\""), "https://h/x?cursor=1");
  EXPECT_EQ(next_page("<https://h/x>; rel=\"prev\""), "");
  EXPECT_EQ(next_page("rel=\"next\""), "");
  EXPECT_EQ(error_text(R"({"error":"no\nway"})"), "no\\nway");
}

TEST(Listing, ReadsRanges) {
  const auto range = parse_content_range("bytes 100-199/200");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 100u);
  EXPECT_EQ(range->total, 200u);
  EXPECT_EQ(parse_content_range("bytes 0-0/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */200")->begin, std::nullopt);
  for (const char* text : {"", "bytes", "bytes 1-0/2", "bytes 0-2/2", "bytes a-b/c", "items 0-1/2",
                           "bytes -1-2/3", "bytes 0-99999999999999999999/*"}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

TEST(Http, KnowsOrigins) {
  EXPECT_EQ(origin_of("HTTPS://Hub.co/x"), "https://hub.co:443");
  EXPECT_EQ(origin_of("https://hub.co:443/y?z"), origin_of("https://hub.co"));
  EXPECT_NE(origin_of("http://hub.co"), origin_of("https://hub.co"));
  EXPECT_NE(origin_of("https://hub.co"), origin_of("https://hub.co.evil.org"));
  EXPECT_NE(origin_of("https://hub.co"), origin_of("https://hub.co@evil.org"));
  EXPECT_EQ(origin_of("file:///etc/passwd"), "");
  EXPECT_EQ(origin_of("x"), "");
  EXPECT_EQ(url_escape_path("a b/\xc3\xa9#?.gguf"), "a%20b/%C3%A9%23%3F.gguf");
}

TEST(Digest, EqualsKnownOnes) {
  const std::string text = "abc";
  Digest sha(DigestKind::sha256, 3);
  sha.update(std::as_bytes(std::span(text.data(), text.size())));
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest git(DigestKind::git_sha1, 0);
  EXPECT_EQ(git.hex(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391") << "git's name of the empty blob";
  EXPECT_EQ(digest_kind(std::string(64, 'a')), DigestKind::sha256);
  EXPECT_EQ(digest_kind(std::string(40, 'A')), DigestKind::none);
}

TEST(Digest, TrailsAWriter) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const std::string piece(100'000, 'x');
  Digest whole(DigestKind::sha256, piece.size() * 50);
  TrailingDigest trailing(::fileno(file), DigestKind::sha256, piece.size() * 50);
  for (std::size_t i = 1; i <= 50; ++i) {
    ASSERT_EQ(::write(::fileno(file), piece.data(), piece.size()), static_cast<ssize_t>(piece.size()));
    trailing.available(i * piece.size());
    whole.update(std::as_bytes(std::span(piece.data(), piece.size())));
  }
  const auto digest = trailing.finish();
  ASSERT_TRUE(digest.ok()) << digest.status().message();
  EXPECT_EQ(*digest, whole.hex());

  // Told the bytes, too, in pieces that wrap around and pass by a reader who is slower; some of them only in the file, and
  // the first ones there before.
  std::string noise(40'000'000, 0);
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i >> 7);
  ASSERT_EQ(::ftruncate(::fileno(file), 0), 0);
  const auto write_at = [&](std::size_t begin, std::size_t end) {
    const auto size = static_cast<ssize_t>(end - begin);
    return ::pwrite(::fileno(file), noise.data() + begin, end - begin, static_cast<off_t>(begin)) == size;
  };
  ASSERT_TRUE(write_at(0, 1'000'000));
  TrailingDigest told(::fileno(file), DigestKind::sha256, noise.size());
  told.available(1'000'000);
  for (std::size_t at = 1'000'000, next, i = 0; at < noise.size(); at = next, ++i) {
    next = std::min(noise.size(), at + 1 + i * 7919 % 300'000);
    ASSERT_TRUE(write_at(at, next));
    const auto bytes = std::as_bytes(std::span(noise)).subspan(at, next - at);
    told.available(next, i % 50 == 7 ? std::span<const std::byte>() : bytes);
  }
  Digest noises(DigestKind::sha256, noise.size());
  noises.update(std::as_bytes(std::span(noise)));
  const auto of_told = told.finish();
  ASSERT_TRUE(of_told.ok()) << of_told.status().message();
  EXPECT_EQ(*of_told, noises.hex());

  TrailingDigest abandoned(::fileno(file), DigestKind::sha256, std::uint64_t{1} << 40);
  TrailingDigest short_file(::fileno(file), DigestKind::sha256, std::uint64_t{1} << 33);
  EXPECT_FALSE(short_file.finish().ok()) << "cut short";
  std::fclose(file);
}

}  // namespace
}  // namespace lithe::hub
