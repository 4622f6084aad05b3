// A GGUF's tokenizer metadata as the plain data that the tokenizer takes, and its chat template.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "formats/metadata.h"
#include "tokenizer/tokenizer.h"

namespace lithe::models {

/// Borrows the file's bytes. corrupt / not_found: names the key, and the token where there is one.
/// extra_eos holds the control tokens that end a turn by their name (<|im_end|>, <|eot_id|>, <|endoftext|>,
/// ...): files often name only one of several (field case 6).
Result<tokenizer::VocabSpec> vocab_spec(const formats::Metadata& metadata);

/// The template called `name`; without a name "tool_use" where a conversation has tools and there is one, else the plain
/// one. Nothing when the file has none; not_found: none of that name, with those there are.
Result<std::optional<std::string_view>> chat_template(const formats::Metadata& metadata,
                                                      std::string_view name = {}, bool tools = false);
/// Those beside the plain one, as a message lists them.
std::string named_templates(const formats::Metadata& metadata);

}  // namespace lithe::models
