#include <cstring>

#include "formats/gguf.h"
#include "formats/gguf_wire.h"

namespace lithe::formats {
namespace {

// Sizes from the format's definition; those that Lithe runs are checked against tensor/block_format.h by a
// test. Numbers missing here were given up by GGUF (4, 5, 31-33, 36-38) or never defined.
constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};

}  // namespace

const GgufType* find_gguf_type(std::uint32_t id) {
  for (const GgufType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

std::string GgufPair::type_text() const {
  if (type != wire::kArray) return std::string(wire::kValueNames[type]);
  std::uint32_t element;
  std::uint64_t count;
  std::memcpy(&element, value.data(), sizeof element);
  std::memcpy(&count, value.data() + sizeof element, sizeof count);
  return fmt::format("{}[{}]", wire::kValueNames[element], count);
}

}  // namespace lithe::formats
