lithe_test(tokenizer_parity_test SOURCES tokenizer_parity_test.cpp
  DEPS lithe::models lithe::formats lithe::tokenizer nlohmann_json::nlohmann_json)
# Not a test: tests/oracle/check_real_vocabularies.py feeds it.
add_executable(tokenizer_ids tokenizer_ids.cpp)
target_link_libraries(tokenizer_ids PRIVATE lithe_flags lithe::models lithe::formats lithe::tokenizer)
lithe_test(tokenizer_json_test SOURCES tokenizer_json_test.cpp
  DEPS lithe::models lithe::formats lithe::tokenizer nlohmann_json::nlohmann_json)
lithe_test(hf_vocab_test SOURCES hf_vocab_test.cpp
  DEPS lithe::models lithe::formats lithe::tokenizer)
