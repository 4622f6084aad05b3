// What can go wrong, as a value. Three kinds of fault stay apart everywhere in Lithe:
//   * a file's fault and a request's fault are a Status with a message that says what, where and what to do;
//   * a programmer's fault is an assertion (LITHE_CHECK in base/check.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lithe {

enum class Code : std::uint8_t {
  ok,
  invalid_argument,    // a request's or a flag's fault
  not_found,           // no such file, model, tensor
  corrupt,             // a file's fault: its bytes contradict themselves or the format
  unsupported,         // well-formed, but not something Lithe runs
  resource_exhausted,  // memory, pages or a budget ran out
  io,                  // the operating system refused
  cancelled,           // the client left or Ctrl-C
  internal,            // our fault, reported instead of crashing
};

/// "invalid argument", "corrupt", ... for messages and logs.
const char* code_name(Code code);

/// Success, or a code with a one-line message in plain words. Cheap to move; success holds no memory.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

  /// The same fault, seen from one level up: "CONTEXT: message".
  Status with_context(const std::string& context) && {
    if (!ok()) message_ = context + ": " + message_;
    return std::move(*this);
  }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// Ends the process with the error's message: whoever takes a value must have asked for ok().
[[noreturn]] void value_of_error(const Status& status);

/// A value or the Status that explains its absence. value(), * and -> may only be used after ok(): without a value they
/// end the process, in every build.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return checked(), *value_; }
  const T& value() const& { return checked(), *value_; }
  T value() && { return checked(), std::move(*value_); }
  T& operator*() { return checked(), *value_; }
  const T& operator*() const { return checked(), *value_; }
  T* operator->() { return checked(), &*value_; }
  const T* operator->() const { return checked(), &*value_; }

 private:
  void checked() const {
    if (!value_) value_of_error(status_);
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace lithe
