#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/check.h"
#include "base/text.h"
#include "hub/listing.h"

namespace lithe::hub {
namespace {

constexpr int kMostRedirects = 10;
constexpr std::size_t kMostHeaders = 200, kMostHeaderBytes = 16384, kMostError = 4096;
constexpr long kBuffer = 128 << 10, kConnectSeconds = 20, kSlowestBytes = 1;

void start_curl() {
  static const CURLcode kStarted = curl_global_init(CURL_GLOBAL_DEFAULT);  // once, and thread-safe so
  LITHE_CHECK(kStarted == CURLE_OK);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// Faults that another attempt may not meet.
bool may_go_away(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP3:
    case CURLE_WEIRD_SERVER_REPLY:
      return true;
    default:
      return false;
  }
}

bool first_counts(const std::string& name) {
  return name == "x-repo-commit" || name.starts_with("x-linked-");
}

using UrlHandle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string url_part(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string out = text;
  curl_free(text);
  return out;
}

}  // namespace

std::string Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

std::string url_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

std::string url_escape_path(std::string_view path) {
  std::string out;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (at > 0) out += '/';
    out += url_escape(path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string origin_of(const std::string& url) {
  const UrlHandle parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr || curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return {};
  const std::string scheme = lower(url_part(parsed.get(), CURLUPART_SCHEME, 0));
  if (scheme != "http" && scheme != "https") return {};
  return scheme + "://" + lower(url_part(parsed.get(), CURLUPART_HOST, 0)) + ":" +
         url_part(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

// What the callbacks of one exchange write to.
struct HttpClient::Exchange {
  CURL* curl;
  Answer& answer;
  OnHeaders on_headers;
  Sink sink;
  const std::function<bool()>& cancelled;
  bool body_begun = false;

  void take_header(std::string_view line);
  Status take_body(std::span<const std::byte> bytes);
  Status begin_body();

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self);
  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);
};

void HttpClient::Exchange::take_header(std::string_view line) {
  Headers& headers = answer.headers;
  if (line.starts_with("HTTP/")) {  // a new answer: after a 100 Continue, or a proxy's own
    std::erase_if(headers, [](const auto& header) { return !first_counts(header.first); });
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || line.size() > kMostHeaderBytes || headers.size() >= kMostHeaders)
    return;
  const std::string name = lower(trimmed(line.substr(0, colon)));
  if (first_counts(name) && headers.contains(name)) return;
  headers[name] = trimmed(line.substr(colon + 1));
}

Status HttpClient::Exchange::begin_body() {
  body_begun = true;
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return status >= 200 && status < 300 ? on_headers(answer) : Status();
}

Status HttpClient::Exchange::take_body(std::span<const std::byte> bytes) {
  if (!body_begun) LITHE_RETURN_IF_ERROR(begin_body());
  if (answer.status >= 200 && answer.status < 300) return sink(bytes);
  const std::size_t room = kMostError - std::min(kMostError, answer.error.size());
  answer.error.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  return {};
}

std::size_t HttpClient::Exchange::on_header(char* data, std::size_t, std::size_t size, void* self) {
  static_cast<Exchange*>(self)->take_header({data, size});
  return size;
}

std::size_t HttpClient::Exchange::on_body(char* data, std::size_t, std::size_t size, void* self) {
  auto& exchange = *static_cast<Exchange*>(self);
  exchange.answer.fault = exchange.take_body(std::as_bytes(std::span(data, size)));
  return exchange.answer.fault.ok() ? size : 0;  // 0 ends the transfer
}

int HttpClient::Exchange::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Exchange*>(self)->cancelled() ? 1 : 0;
}

HttpClient::HttpClient(const Settings& settings, std::function<bool()> cancelled_now)
    : settings_(settings), cancelled_(std::move(cancelled_now)) {
  start_curl();
  curl_ = curl_easy_init();
  LITHE_CHECK(curl_ != nullptr);
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(curl_);
}

void HttpClient::perform(const std::string& url, std::uint64_t begin, Exchange& exchange) {
  CURL* curl = curl_;
  char message[CURL_ERROR_SIZE] = {};
  curl_slist* headers = nullptr;
  if (!settings_.token.empty() && origin_of(url) == origin_of(settings_.endpoint))
    headers = curl_slist_append(headers, ("Authorization: Bearer " + settings_.token).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, Exchange::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Exchange::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, Exchange::on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);
  const std::string range = begin > 0 ? fmt::format("{}-", begin) : std::string();
  if (begin > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  Answer& answer = exchange.answer;
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  curl_off_t wait = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0)
    answer.retry_after = static_cast<double>(wait);
  if (!answer.fault.ok()) return;  // the sink's own
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    answer.fault = cancelled("interrupted");
  } else if (code != CURLE_OK) {
    answer.fault = io_error("{}", printable(message[0] != 0 ? message : curl_easy_strerror(code), 200));
    answer.retry = may_go_away(code);
  } else if (!exchange.body_begun && status >= 200 && status < 300) {
    answer.fault = exchange.begin_body();  // an empty one
  }
}

Answer HttpClient::follow(std::string url, std::uint64_t begin, bool body, OnHeaders on_headers, Sink sink) {
  Answer answer;
  for (int hops = 0; hops <= kMostRedirects; ++hops) {
    CURL* curl = curl_;
    curl_easy_reset(curl);  // options, not connections
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "lithe");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kSlowestBytes);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, settings_.stall_seconds);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kBuffer);
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
    if (!settings_.certificates.empty())
      curl_easy_setopt(curl, CURLOPT_CAINFO, settings_.certificates.c_str());
    if (!body) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    answer.error.clear();
    answer.retry_after.reset();
    Exchange exchange{curl, answer, on_headers, sink, cancelled_};
    perform(url, begin, exchange);
    if (!answer.fault.ok() || answer.status < 300 || answer.status >= 400) {
      if (answer.fault.ok() && (answer.status == 429 || answer.status >= 500)) answer.retry = true;
      return answer;
    }
    char* target = nullptr;
    curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &target);
    if (target == nullptr) return answer;  // 304 and the like
    std::string next = target;
    if (!body && origin_of(next) != origin_of(url)) return answer;  // a content network signs for GET alone
    if (origin_of(next).empty() || (url.starts_with("https:") && !next.starts_with("https:"))) {
      answer.fault =
          io_error("{} redirects to {}, which is not followed", printable(url, 200), printable(next, 200));
      return answer;
    }
    url = std::move(next);
  }
  answer.fault = io_error("more than {} redirects", kMostRedirects);
  return answer;
}

Answer HttpClient::get(const std::string& url, std::uint64_t begin, OnHeaders on_headers, Sink sink) {
  return follow(url, begin, true, on_headers, sink);
}

Answer HttpClient::get_text(const std::string& url, std::string& body, std::size_t limit) {
  body.clear();
  return follow(
      url, 0, true, [](const Answer&) { return Status(); },
      [&](std::span<const std::byte> bytes) -> Status {
        if (bytes.size() > limit - body.size()) return corrupt("an answer of more than {} bytes", limit);
        body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return {};
      });
}

Answer HttpClient::head(const std::string& url) {
  return follow(
      url, 0, false, [](const Answer&) { return Status(); },
      [](std::span<const std::byte>) { return Status(); });
}

}  // namespace lithe::hub
