#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lithe::hub {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;     // stays in a core's own cache
constexpr std::uint64_t kStep = std::uint64_t{512} << 10;  // less is not worth waking a thread for
// Some steps: the writer and the reader take turns on the cores.
constexpr std::size_t kRecent = std::size_t{4} << 20;

bool is_hex(const std::string& text) {
  return text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

DigestKind digest_kind(const std::string& etag) {
  if (!is_hex(etag)) return DigestKind::none;
  return etag.size() == 64 ? DigestKind::sha256 : etag.size() == 40 ? DigestKind::git_sha1 : DigestKind::none;
}

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(DigestKind kind, std::uint64_t size) : state_(std::make_unique<State>()) {
  if (kind == DigestKind::none) return;
  const EVP_MD* algorithm = kind == DigestKind::sha256 ? EVP_sha256() : EVP_sha1();
  LITHE_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, algorithm, nullptr) == 1);
  if (kind == DigestKind::git_sha1) {
    const std::string head = fmt::format("blob {}", size);
    update(std::as_bytes(std::span(head.c_str(), head.size() + 1)));  // with the NUL
  }
}

Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  LITHE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  unsigned char raw[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  LITHE_CHECK(EVP_DigestFinal_ex(state_->context, raw, &length) == 1);
  std::string out;
  for (unsigned i = 0; i < length; ++i) out += fmt::format("{:02x}", raw[i]);
  return out;
}

TrailingDigest::TrailingDigest(int fd, DigestKind kind, std::uint64_t size)
    : fd_(fd),
      digest_(kind, size),
      buffer_(kPiece),
      recent_(kind == DigestKind::none ? 0 : kRecent),
      follower_(size, kStep, [this](std::uint64_t begin, std::uint64_t end) { return read(begin, end); }) {}

void TrailingDigest::available(std::uint64_t bytes, std::span<const std::byte> newest) {
  const std::uint64_t begin = bytes - newest.size();
  bool fits;
  {
    const std::lock_guard lock(mutex_);
    if (kept_begin_ == kept_end_) kept_begin_ = kept_end_ = begin;
    // Not behind a gap, and not over what has still to be read: then the reader takes them from the file.
    fits = kept_end_ == begin && bytes - kept_begin_ <= recent_.size();
  }
  if (fits && !newest.empty()) {
    const std::size_t at = begin % recent_.size(), first = std::min(newest.size(), recent_.size() - at);
    std::copy_n(newest.begin(), first, recent_.begin() + static_cast<std::ptrdiff_t>(at));
    std::copy(newest.begin() + static_cast<std::ptrdiff_t>(first), newest.end(), recent_.begin());
    const std::lock_guard lock(mutex_);
    kept_end_ = bytes;
  }
  follower_.available(bytes);
}

Result<std::string> TrailingDigest::finish() {
  LITHE_RETURN_IF_ERROR(follower_.finish());
  return digest_.hex();
}

Status TrailingDigest::read(std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    std::uint64_t kept_begin, kept_end;
    {
      const std::lock_guard lock(mutex_);
      if (kept_begin_ < begin) kept_begin_ = std::min(begin, kept_end_);
      kept_begin = kept_begin_, kept_end = kept_end_;
    }
    std::uint64_t stop = end;
    if (kept_begin == begin && begin < kept_end) {
      const std::size_t at = begin % recent_.size();
      stop = std::min({end, kept_end, begin + kPiece, begin + (recent_.size() - at)});
      digest_.update(std::span(recent_).subspan(at, static_cast<std::size_t>(stop - begin)));
    } else {
      if (begin < kept_begin && kept_begin < kept_end) stop = std::min(end, kept_begin);
      LITHE_RETURN_IF_ERROR(read_back(begin, stop));
    }
    begin = stop;
  }
  const std::lock_guard lock(mutex_);
  if (kept_begin_ < end) kept_begin_ = std::min(end, kept_end_);
  return {};
}

Status TrailingDigest::read_back(std::uint64_t begin, std::uint64_t end) {
  while (begin < end) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, end - begin));
    const ssize_t got = ::pread(fd_, buffer_.data(), wanted, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return io_error("cannot read a download back: {}", got < 0 ? std::strerror(errno) : "it was cut short");
    digest_.update(std::span(buffer_).first(static_cast<std::size_t>(got)));
    begin += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace lithe::hub
