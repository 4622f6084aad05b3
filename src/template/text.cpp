#include "template/text.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace lithe::chat {
namespace {

constexpr std::size_t kMaxStorage = std::numeric_limits<std::uint32_t>::max() / 2;

void check_storage(std::size_t bytes) {
  if (bytes > kMaxStorage)
    fail(Code::resource_exhausted, "a text of {} bytes is too long for a template", bytes);
}

}  // namespace

void Text::Storage::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!untrusted.empty() && untrusted.back().end == begin) {
    untrusted.back().end = static_cast<std::uint32_t>(end);
  } else {
    untrusted.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }
}

void Text::Storage::add(std::string_view piece, bool is_untrusted) {
  const std::size_t begin = bytes.size();
  bytes.append(piece);
  if (is_untrusted) mark(begin, bytes.size());
}

std::size_t Text::Storage::first_span(std::size_t position) const {
  return static_cast<std::size_t>(std::partition_point(untrusted.begin(), untrusted.end(),
                                                       [&](const Span& s) { return s.end <= position; }) -
                                  untrusted.begin());
}

Text::Text(std::string bytes, bool is_untrusted) {
  if (bytes.empty()) return;
  check_storage(bytes.size());
  size_ = static_cast<std::uint32_t>(bytes.size());
  storage_ = std::make_shared<Storage>();
  storage_->bytes = std::move(bytes);
  if (is_untrusted) storage_->mark(0, size_);
}

Text Text::frozen(std::string bytes) {
  Text text(std::move(bytes));
  if (text.storage_) text.storage_->frozen = true;
  return text;
}

Text Text::sub(std::size_t begin, std::size_t size) const {
  LITHE_CHECK(begin <= size_ && size <= size_ - begin);
  Text out;
  if (size == 0) return out;
  out.storage_ = storage_;
  out.begin_ = static_cast<std::uint32_t>(begin_ + begin);
  out.size_ = static_cast<std::uint32_t>(size);
  return out;
}

bool Text::untrusted() const {
  if (size_ == 0) return false;
  const std::size_t i = storage_->first_span(begin_);
  return i < storage_->untrusted.size() && storage_->untrusted[i].begin < begin_ + size_;
}

void Text::append_to(Storage& target) const {
  const std::size_t base = target.bytes.size();
  std::vector<Span> runs;  // copied first: `target` may be our own storage
  for_each_run([&](std::size_t begin, std::size_t end, bool is_untrusted) {
    if (is_untrusted) runs.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  });
  target.bytes.append(storage_->bytes, begin_, size_);
  for (const Span& run : runs) target.mark(base + run.begin, base + run.end);
}

Text Text::concat(const Text& a, const Text& b, Budget& budget) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  const std::size_t size = a.size() + b.size();
  budget.check_text(size);
  Text out;
  if (!a.storage_->frozen && a.begin_ + a.size_ == a.storage_->bytes.size()) {
    budget.allocate(b.size());
    check_storage(a.storage_->bytes.size() + b.size());
    out.storage_ = a.storage_;
    out.begin_ = a.begin_;
  } else {
    budget.allocate(size);
    check_storage(size);
    out.storage_ = std::make_shared<Storage>();
    out.storage_->bytes.reserve(size);
    a.append_to(*out.storage_);
  }
  b.append_to(*out.storage_);
  out.size_ = static_cast<std::uint32_t>(size);
  return out;
}

void TextBuilder::pay(std::size_t bytes) {
  budget_->allocate(bytes);
  budget_->check_text(storage_->bytes.size() + bytes);
  check_storage(storage_->bytes.size() + bytes);
}

void TextBuilder::add(std::string_view bytes, bool untrusted) {
  pay(bytes.size());
  storage_->add(bytes, untrusted);
}

void TextBuilder::add(const Text& text) {
  if (text.empty()) return;
  pay(text.size());
  text.append_to(*storage_);
}

Text TextBuilder::finish() && {
  Text out;
  if (storage_->bytes.empty()) return out;
  out.size_ = static_cast<std::uint32_t>(storage_->bytes.size());
  out.storage_ = std::move(storage_);
  return out;
}

}  // namespace lithe::chat
