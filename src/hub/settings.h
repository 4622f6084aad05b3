// Where the hub is and where its files are kept: the environment variables that users of Hugging Face have set already.
#pragma once

#include <filesystem>
#include <string>

namespace lithe::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT; no slash at the end
  std::string token;            // HF_TOKEN, else HF_TOKEN_PATH, else $HF_HOME/token; may be empty
  std::filesystem::path cache;  // HF_HUB_CACHE, else $HF_HOME/hub
  bool offline = false;         // HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE
  long stall_seconds = 30;      // HF_HUB_DOWNLOAD_TIMEOUT: nothing came for so long
  std::string certificates;     // SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE; may be empty
};

Settings settings_from_environment();

}  // namespace lithe::hub
