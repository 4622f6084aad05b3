#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "tokenizer/splitters.h"

namespace lithe::tokenizer {
namespace {

// The patterns, as the families' tokenizer.json files have them. Many share parts.
#define CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define BLANKS R"(\s+(?!\S)|\s+)"
#define OTHERS R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)" BLANKS
// Words that end where lower case meets upper case, as OpenAI's o200k cuts them.
#define CASED_1 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
#define CASED_2 R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
#define CASED_OTHERS R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)" BLANKS
#define HAN_1 \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
#define HAN_2 \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
#define SYMBOL_WORDS \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 = CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" OTHERS;
constexpr const char* kQwen2 = CONTRACTIONS "|" LETTERS R"(|\p{N}|)" OTHERS;
constexpr const char* kQwen35 =
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
                 R"(\s*[\r\n]+|)" BLANKS;
constexpr const char* kGpt4o = CASED_1 CONTRACTIONS "?|" CASED_2 CONTRACTIONS R"(?|\p{N}{1,3}|)" CASED_OTHERS;
constexpr const char* kTekken = CASED_1 "|" CASED_2 R"(|\p{N}|)" CASED_OTHERS;
constexpr const char* kKimi =
    R"([\p{Han}]+|)" HAN_1 CONTRACTIONS "?|" HAN_2 CONTRACTIONS R"(?|\p{N}{1,3}|)" OTHERS;
constexpr const char* kYoutu = CASED_1 CONTRACTIONS "?|" CASED_2 CONTRACTIONS R"(?|\p{N}|)" CASED_OTHERS;
constexpr const char* kDeepSeek3 = SYMBOL_WORDS R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|)" BLANKS;
constexpr const char* kSpark = SYMBOL_WORDS R"( ?[\p{P}\p{S}]+|[\r\n]|)" BLANKS;
constexpr const char* kKana = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr const char* kDeepSeekCjk = R"([一-龥ࠀ-一가-퟿]+)";
constexpr const char* kDeepSeekLetters = R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ)"
                                         R"(-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ)"
                                         R"(-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐ)"
                                         R"(ῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ)"
                                         R"(-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-)"
                                         R"(ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-)"
                                         R"(𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr const char* kBloom = R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
constexpr const char* kBailing =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|)"
    R"(\s*[\r\n]|)" BLANKS;
constexpr const char* kSeed =
    CONTRACTIONS "|" LETTERS R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|)" BLANKS;
constexpr const char* kJais2 =
    CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
                 R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
                 R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";
constexpr const char* kExaoneMoe =
    CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
                 R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|)" BLANKS;
constexpr const char* kPunctuation = R"(\p{BertPunctuation}+)";
// Groups of three digits from the right: a number, the digit or two before its groups, the groups. So the look ahead
// over all of a number happens once.
constexpr const char *kDigits = R"(\p{Nd}+)", *kOddDigits = R"(^\p{Nd}{1,2}(?=(?:\p{Nd}{3})+$))",
                     *kGroups = R"(\p{Nd}{3})";
constexpr const char* kAsianScripts =
    R"([一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+)";
constexpr const char* kNumber = R"(\p{N})";
constexpr const char* kThreeDigits = R"([0-9][0-9][0-9])";

constexpr PreTokenizerRow kRows[] = {
    {.names = {"gpt-2", "gpt2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "jais", "trillion",
               "granite-docling"},
     .patterns = {kGpt2},
     .split = split_gpt2},
    {.names = {"roberta-bpe", "jina-v1-en", "jina-v2-code", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de"},
     .patterns = {kGpt2},
     .split = split_gpt2},
    {.names = {"mpt", "olmo", "modern-bert"}, .patterns = {kGpt2}, .split = split_gpt2, .nfc = true},
    {.names = {"smollm", "starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"},
     .patterns = {kNumber, kGpt2},
     .split = split_smollm},
    {.names = {"command-r"}, .patterns = {kNumber, kGpt2}, .split = split_smollm, .nfc = true},
    {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
               "jina-v5-nano"},
     .patterns = {kLlama3},
     .split = split_llama3,
     .ignore_merges = true,
     .add_bos = true},
    {.names = {"glm4", "glm5"}, .patterns = {kLlama3}, .split = split_llama3, .ignore_merges = true},
    {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .patterns = {kLlama3}, .split = split_llama3},
    {.names = {"qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"},
     .patterns = {kQwen2},
     .split = split_qwen2,
     .nfc = true},
    {.names = {"stablelm2", "hunyuan", "solar-open", "grok-2"}, .patterns = {kQwen2}, .split = split_qwen2},
    {.names = {"qwen35"}, .patterns = {kQwen35}},
    {.names = {"ufakzeka"}, .patterns = {LETTERS R"(|\p{N}|)" OTHERS}},
    {.names = {"laguna"}, .patterns = {R"([^\n]+|[\n]+)", kQwen2}},
    {.names = {"minicpm5"},
     .patterns = {R"(\p{N}{1,3})", CONTRACTIONS "|" LETTERS R"(|\p{N}+|)" OTHERS},
     .ignore_merges = true},
    {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .patterns = {kGpt4o}},
    {.names = {"granite-embed-multi-97m"}, .patterns = {kGpt4o}, .ignore_merges = true},
    {.names = {"tiny_aya", "cohere2moe"}, .patterns = {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}},
    {.names = {"tekken"}, .patterns = {kTekken}, .ignore_merges = true, .add_bos = true},
    {.names = {"kimi-k2"}, .patterns = {kKimi}},
    {.names = {"youtu"},
     .patterns =
         {R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)",
          kYoutu},
     .ignore_merges = true},
    {.names = {"deepseek-llm"},
     .patterns = {R"([\r\n])", kDeepSeekLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kDeepSeekCjk,
                  kNumber}},
    {.names = {"deepseek-coder"},
     .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, kNumber}},
    {.names = {"deepseek-v3", "deepseek-r1", "hunyuan-dense", "joyai-llm", "hy_v4"},
     .patterns = {R"(\p{N}{1,3})", kKana, kDeepSeek3}},
    {.names = {"afmoe"}, .patterns = {kDigits, kOddDigits, kGroups, kAsianScripts, kDeepSeek3}},
    {.names = {"spark2_5"}, .patterns = {R"(\p{N}{1,3})", kKana, kSpark, kNumber}},
    {.names = {"falcon"}, .patterns = {kPunctuation, kGpt2, kThreeDigits}},
    {.names = {"default"}, .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", kThreeDigits}},
    {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .patterns = {kBloom}},
    {.names = {"viking"}, .patterns = {kBloom, kNumber}},
    {.names = {"chameleon"},
     .patterns = {R"(<sentinel:[0-9]+>)", R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)", R"(([\t\n]|    |  ))",
                  kNumber, R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
     .add_bos = true},
    {.names = {"superbpe"}, .patterns = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
    {.names = {"bailingmoe", "bailingmoe2", "llada-moe"}, .patterns = {kBailing}},
    {.names = {"seed-coder"}, .patterns = {kSeed}},
    {.names = {"jais-2"}, .patterns = {kJais2}},
    {.names = {"exaone-moe"}, .patterns = {kExaoneMoe}},
};
#undef CONTRACTIONS
#undef LETTERS
#undef BLANKS
#undef OTHERS
#undef CASED_1
#undef CASED_2
#undef CASED_OTHERS
#undef HAN_1
#undef HAN_2
#undef SYMBOL_WORDS

/// Line ends and tabs written as themselves or as escapes are the same pattern.
std::string canonical(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::span<const PreTokenizerRow> pre_tokenizer_rows() {
  return kRows;
}

const char* gpt2_pattern() {
  return kGpt2;
}

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const PreTokenizerRow& row : kRows) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  }
  return nullptr;
}

const PreTokenizerRow* find_pre_tokenizer(std::span<const std::string> patterns, bool nfc,
                                          bool ignore_merges) {
  const PreTokenizerRow* nearly = nullptr;
  for (const PreTokenizerRow& row : kRows) {
    std::size_t same = 0;
    while (same < patterns.size() && same < row.patterns.size() && row.patterns[same] != nullptr &&
           canonical(patterns[same]) == row.patterns[same]) {
      ++same;
    }
    if (same < patterns.size() || (same < row.patterns.size() && row.patterns[same] != nullptr)) continue;
    if (row.nfc == nfc && row.ignore_merges == ignore_merges) return &row;
    if (nearly == nullptr) nearly = &row;
  }
  return nearly;
}

std::string_view nearest_pre_tokenizer(std::string_view name) {
  std::vector<std::string_view> known;
  for (const PreTokenizerRow& row : kRows) {
    std::ranges::copy_if(row.names, std::back_inserter(known),
                         [](std::string_view each) { return !each.empty(); });
  }
  return nearest_name(name, known);
}

Result<PreTokenizer> PreTokenizer::create(const PreTokenizerRow& row) {
  PreTokenizer pre;
  pre.row_ = &row;
  if (row.split == nullptr) {
    LITHE_ASSIGN_OR_RETURN(PatternSplitter patterns, PatternSplitter::create(row.patterns));
    pre.patterns_.push_back(std::move(patterns));
  }
  return pre;
}

}  // namespace lithe::tokenizer
