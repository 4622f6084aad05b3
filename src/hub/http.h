// One exchange with a server, over libcurl. Redirects are followed here and not by libcurl, because the token must not
// leave the hub's own host and because the hub's first answer says what its content network does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "base/status.h"
#include "hub/settings.h"

namespace lithe::hub {

/// By lower-case names. Of several answers on the way the last one counts, but for x-repo-commit and x-linked-..., where
/// the first one does.
using Headers = std::map<std::string, std::string>;

struct Answer {
  int status = 0;  // of HTTP; 0: none came
  Headers headers;
  std::string error;  // the beginning of the body of anything but a 2xx
  Status
      fault;  // the network's, the sink's, or an interruption; ok does not mean that `status` is a good one
  bool retry = false;                 // a fault that may go away: the network's, 429, 5xx
  std::optional<double> retry_after;  // seconds, as the server asked

  std::string header(const std::string& name) const;  // empty if absent
  bool good() const { return fault.ok() && status >= 200 && status < 300; }
};

/// Looks at a 2xx answer before its body; an error ends the exchange.
using OnHeaders = FunctionRef<Status(const Answer&)>;
/// Takes the next bytes of a body; an error ends the exchange.
using Sink = FunctionRef<Status(std::span<const std::byte>)>;

/// Keeps connections open between exchanges. For one thread at a time.
class HttpClient {
 public:
  /// `cancelled` is asked at least once a second during an exchange.
  HttpClient(const Settings& settings, std::function<bool()> cancelled);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// From byte `begin` on (asked for as a range, if above 0).
  Answer get(const std::string& url, std::uint64_t begin, OnHeaders on_headers, Sink sink);
  /// A small answer whole, for the API; an error above `limit` bytes.
  Answer get_text(const std::string& url, std::string& body, std::size_t limit);
  /// Headers alone: of a 2xx, or of a 3xx to another host, which is not followed.
  Answer head(const std::string& url);

 private:
  struct Exchange;
  Answer follow(std::string url, std::uint64_t begin, bool body, OnHeaders on_headers, Sink sink);
  void perform(const std::string& url, std::uint64_t begin, Exchange& exchange);

  Settings settings_;
  std::function<bool()> cancelled_;
  void* curl_;
};

/// One path component of a URL.
std::string url_escape(std::string_view text);
/// Slashes stay.
std::string url_escape_path(std::string_view path);
/// Scheme, host and port of a URL, in lower case and with the default port; empty: not http or https.
std::string origin_of(const std::string& url);

}  // namespace lithe::hub
