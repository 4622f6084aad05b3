#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>

#include "base/env.h"
#include "base/file.h"

namespace lithe::hub {
namespace {

// The first of some variables that is set and not empty, or nothing.
std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto value = system_env(name); value && !value->empty()) return *value;
  }
  return {};
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// "~/x" as a shell would read it; Python's expanduser() does the same to these variables.
std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return first_of({"HOME"}) + path.substr(1);
}

std::string hub_home() {
  if (const std::string home = first_of({"HF_HOME"}); !home.empty()) return expand_home(home);
  const std::string cache = first_of({"XDG_CACHE_HOME"});
  return (cache.starts_with('/') ? cache : first_of({"HOME"}) + "/.cache") + "/huggingface";
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string find_token(const std::string& home) {
  if (const std::string token = first_of({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}); !token.empty())
    return trimmed(token);
  const std::string path = first_of({"HF_TOKEN_PATH"});
  const auto text = read_file(path.empty() ? home + "/token" : expand_home(path), 4096);
  return text.ok() ? trimmed(*text) : std::string();
}

}  // namespace

Settings settings_from_environment() {
  Settings out;
  if (std::string endpoint = first_of({"HF_ENDPOINT"}); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    out.endpoint = endpoint;
  }
  const std::string home = hub_home();
  const std::string cache = first_of({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  out.cache = cache.empty() ? home + "/hub" : expand_home(cache);
  out.token = find_token(home);
  out.offline = is_true(first_of({"HF_HUB_OFFLINE"})) || is_true(first_of({"TRANSFORMERS_OFFLINE"}));
  const std::string stall = first_of({"HF_HUB_DOWNLOAD_TIMEOUT"});
  long seconds = 0;
  const auto [end, error] = std::from_chars(stall.data(), stall.data() + stall.size(), seconds);
  if (error == std::errc() && seconds > 0 && seconds <= 3600) out.stall_seconds = seconds;
  out.certificates = first_of({"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"});
  return out;
}

}  // namespace lithe::hub
