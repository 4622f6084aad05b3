#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/checked.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/status.h"

namespace lithe {
namespace {

std::filesystem::path scratch_dir() {
  auto dir = std::filesystem::path(testing::TempDir()) / "lithe base test";
  std::filesystem::create_directories(dir);
  return dir;
}

Result<int> half(int value) {
  if (value % 2 != 0) return invalid("{} is odd", value);
  return value / 2;
}
Status quarter(int value, int* out) {
  LITHE_ASSIGN_OR_RETURN(const int once, half(value));
  LITHE_ASSIGN_OR_RETURN(*out, half(once));
  return {};
}

TEST(Status, TravelsThroughMacros) {
  int out = 0;
  EXPECT_TRUE(quarter(12, &out).ok());
  EXPECT_EQ(out, 3);
  const Status status = quarter(6, &out).with_context("quarter");
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "quarter: 3 is odd");
}

TEST(ResultDeathTest, NamesTheErrorWhoseValueIsTaken) {
  Result<int> bad = half(3);
  EXPECT_DEATH(bad.value(), "3 is odd");
  EXPECT_DEATH(*bad, "3 is odd");
}

TEST(Checked, RefusesOverflow) {
  EXPECT_EQ(checked_mul<std::uint64_t>(1ull << 33, 1ull << 33), std::nullopt);
  EXPECT_EQ(checked_add<std::uint64_t>(~0ull, 1), std::nullopt);
  EXPECT_EQ(checked_round_up<std::uint64_t>(~0ull - 3, 32), std::nullopt);
  EXPECT_EQ(checked_round_up<std::uint64_t>(33, 32), 64u);
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const auto path = scratch_dir() / "out.bin";
  std::filesystem::remove(path);
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write(std::string("half")).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_dir()));
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write(std::string("hello")).ok());
  ASSERT_TRUE(file->write_at(0, std::as_bytes(std::span("J", 1))).ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(read_file(path).value(), "Jello");
  std::filesystem::remove(path);
}

TEST(AtomicFile, HasTheModeAskedForLessTheUmask) {
  const auto path = scratch_dir() / "mode.bin";
  const mode_t before = ::umask(027);
  for (const auto& [mode, expected] : {std::pair{0666u, 0640u}, std::pair{0600u, 0600u}}) {
    auto file = AtomicFile::create(path, mode);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->commit().ok());
    EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(path).permissions()), expected);
  }
  ::umask(before);
  std::filesystem::remove(path);
}

TEST(MappedFile, NamesWhatIsMissing) {
  const auto file = MappedFile::open("/nowhere/model.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), Code::not_found);
  EXPECT_NE(file.status().message().find("/nowhere/model.gguf"), std::string::npos);
  EXPECT_FALSE(MappedFile::open(scratch_dir()).ok());
}

TEST(Cpu, ReportsSomethingUsable) {
  EXPECT_GE(default_threads(), 1);
  EXPECT_GT(available_memory(), 1u << 20);
  EXPECT_GT(resident_memory(), 1u << 10);
}

TEST(Cpu, PageCacheOfACgroupIsNotHeld) {
  std::istringstream stat(
      "anon 4096\nfile 150\nfile_mapped 9\ninactive_file 100\nactive_file 23\nworkingset_activate_file 5\n");
  EXPECT_EQ(file_cache_bytes(stat), 123u);
  std::istringstream none("");
  EXPECT_EQ(file_cache_bytes(none), 0u);
}

// Known answers of Philox4x32-10 from the Random123 distribution (kat_vectors).
TEST(Rng, PhiloxKnownAnswers) {
  using A = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (A{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (A{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Rng, DrawsDependOnTheirNumberOnly) {
  Rng a(42), b(42);
  for (int i = 0; i < 5; ++i) a.next_u64();
  b.seek(5);
  EXPECT_EQ(a.next_u64(), b.next_u64());
  EXPECT_NE(Rng(42, 0).next_u64(), Rng(42, 1).next_u64());
}

}  // namespace
}  // namespace lithe
