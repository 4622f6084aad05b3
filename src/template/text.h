// Text that knows which of its bytes came from the conversation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "template/budget.h"

namespace lithe::chat {

/// Bytes [begin, end).
struct Span {
  std::uint32_t begin, end;
};

/// Immutable UTF-8. Copies and slices share one storage; appending to the value that ends where its storage
/// ends grows that storage in place, so that a template which accumulates a text piece by piece takes linear
/// time.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, bool untrusted = false);
  /// A constant of a parsed template: threads share it, so it is never grown in place.
  static Text frozen(std::string bytes);

  std::string_view view() const {
    return storage_ ? std::string_view(storage_->bytes.data() + begin_, size_) : std::string_view();
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Text sub(std::size_t begin, std::size_t size) const;
  bool untrusted() const;  // any byte

  /// Calls visit(begin, end, untrusted) for runs that cover the whole text in order.
  template <typename Visit>
  void for_each_run(Visit&& visit) const;

  static Text concat(const Text& a, const Text& b, Budget& budget);

 private:
  friend class TextBuilder;
  struct Storage {
    std::string bytes;
    std::vector<Span> untrusted;  // ascending, disjoint, not touching
    bool frozen = false;
    void add(std::string_view piece, bool is_untrusted);
    void mark(std::size_t begin, std::size_t end);
    std::size_t first_span(std::size_t position) const;  // index of the first span that ends after `position`
  };
  void append_to(Storage& target) const;

  std::shared_ptr<Storage> storage_;
  std::uint32_t begin_ = 0, size_ = 0;
};

/// Puts texts together, paying for each byte.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget), storage_(std::make_shared<Text::Storage>()) {}

  void add(std::string_view bytes, bool untrusted = false);
  void add(const Text& text);
  void add(char byte, bool untrusted = false) { add(std::string_view(&byte, 1), untrusted); }
  std::size_t size() const { return storage_->bytes.size(); }
  std::string_view view() const { return storage_->bytes; }
  Text finish() &&;
  /// The parts of Rendered.
  std::string take_bytes() && { return std::move(storage_->bytes); }
  const std::vector<Span>& spans() const { return storage_->untrusted; }
  Budget& budget() const { return *budget_; }

 private:
  void pay(std::size_t bytes);
  Budget* budget_;
  std::shared_ptr<Text::Storage> storage_;
};

template <typename Visit>
void Text::for_each_run(Visit&& visit) const {
  if (size_ == 0) return;
  std::size_t at = 0;
  const auto& spans = storage_->untrusted;
  for (std::size_t i = storage_->first_span(begin_); i < spans.size() && spans[i].begin < begin_ + size_;
       ++i) {
    const std::size_t begin = spans[i].begin > begin_ ? spans[i].begin - begin_ : 0;
    const std::size_t end = spans[i].end < begin_ + size_ ? spans[i].end - begin_ : size_;
    if (begin > at) visit(at, begin, false);
    visit(begin, end, true);
    at = end;
  }
  if (at < size_) visit(at, std::size_t{size_}, false);
}

}  // namespace lithe::chat
