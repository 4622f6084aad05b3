#include "tokenizer/sentencepiece_model.h"

#include <bit>
#include <cstring>

#include "base/function_ref.h"
#include "tokenizer/token_table.h"

namespace lithe::tokenizer {
namespace {

/// A field of a message: `number` for wire types 0 and 5, `bytes` for 2.
struct Field {
  std::uint32_t id;
  int wire;
  std::uint64_t number;
  std::string_view bytes;
};

class Message {
 public:
  explicit Message(std::string_view bytes, const char* name) : left_(bytes), name_(name) {}

  /// visit(field) for all fields in order.
  Status each(FunctionRef<Status(const Field&)> visit) {
    while (!left_.empty()) {
      Field field{};
      LITHE_ASSIGN_OR_RETURN(const std::uint64_t tag, varint());
      field.id = static_cast<std::uint32_t>(tag >> 3);
      field.wire = static_cast<int>(tag & 7);
      if (field.id == 0 || tag >> 32 != 0) return fault("a field without a number");
      if (field.wire == 0) {
        LITHE_ASSIGN_OR_RETURN(field.number, varint());
      } else if (field.wire == 1 || field.wire == 5) {
        const std::size_t size = field.wire == 1 ? 8 : 4;
        if (left_.size() < size) return fault("a number that is cut off");
        for (std::size_t i = 0; i < size; ++i)
          field.number |= std::uint64_t{static_cast<std::uint8_t>(left_[i])} << (8 * i);
        left_.remove_prefix(size);
      } else if (field.wire == 2) {
        LITHE_ASSIGN_OR_RETURN(const std::uint64_t size, varint());
        if (size > left_.size()) return fault("a field longer than the file");
        field.bytes = left_.substr(0, static_cast<std::size_t>(size));
        left_.remove_prefix(static_cast<std::size_t>(size));
      } else {
        return fault("a field of an unknown kind");
      }
      LITHE_RETURN_IF_ERROR(visit(field));
    }
    return {};
  }

 private:
  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (left_.empty()) return fault("a number that is cut off");
      const auto byte = static_cast<std::uint8_t>(left_[0]);
      left_.remove_prefix(1);
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
    return fault("a number of more than 64 bits");
  }
  Status fault(const char* what) const { return corrupt("SentencePiece model: {} in {}", what, name_); }

  std::string_view left_;
  const char* name_;
};

Status read_piece(std::string_view bytes, SentencePieceModel& model) {
  SentencePieceModel::Piece piece{{}, 0, TokenType::normal};
  LITHE_RETURN_IF_ERROR(Message(bytes, "a piece").each([&](const Field& field) -> Status {
    if (field.id == 1 && field.wire == 2) piece.text = field.bytes;
    if (field.id == 2 && field.wire == 5)
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.number));
    if (field.id == 3 && field.wire == 0) {
      if (field.number < 1 || field.number > 6)
        return corrupt("SentencePiece model: piece {} has the type {}", model.pieces.size(), field.number);
      piece.type = static_cast<TokenType>(field.number);
    }
    return {};
  }));
  if (model.pieces.size() >= kMaxTokens)
    return unsupported("SentencePiece model: more than {} pieces", kMaxTokens);
  model.pieces.push_back(piece);
  return {};
}

struct Ids {
  std::int64_t unk = 0, bos = 1, eos = 2, pad = -1;  // the format's defaults
};

Status read_trainer(std::string_view bytes, SentencePieceModel& model, Ids& ids) {
  return Message(bytes, "trainer_spec").each([&](const Field& field) -> Status {
    if (field.wire != 0) return {};
    const auto signed_number = static_cast<std::int64_t>(field.number);
    if (field.id == 3) {
      if (field.number != 1 && field.number != 2)
        return unsupported("SentencePiece model: kind {}: known are unigram (1) and BPE (2)", field.number);
      model.kind = static_cast<SentencePieceModel::Kind>(field.number);
    }
    if (field.id == 35) model.byte_fallback = field.number != 0;
    if (field.id == 40) ids.unk = signed_number;
    if (field.id == 41) ids.bos = signed_number;
    if (field.id == 42) ids.eos = signed_number;
    if (field.id == 43) ids.pad = signed_number;
    return {};
  });
}

Status read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  return Message(bytes, "normalizer_spec").each([&](const Field& field) -> Status {
    if (field.id == 2 && field.wire == 2) model.charsmap = field.bytes;
    if (field.id == 3 && field.wire == 0) model.add_dummy_prefix = field.number != 0;
    if (field.id == 4 && field.wire == 0) model.remove_extra_whitespaces = field.number != 0;
    return {};
  });
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  Ids ids;
  LITHE_RETURN_IF_ERROR(Message(bytes, "the model").each([&](const Field& field) -> Status {
    if (field.wire != 2) return {};
    if (field.id == 1) return read_piece(field.bytes, model);
    if (field.id == 2) return read_trainer(field.bytes, model, ids);
    if (field.id == 3) return read_normalizer(field.bytes, model);
    return {};
  }));
  if (model.pieces.empty()) return corrupt("SentencePiece model: no pieces");
  const auto id = [&](std::int64_t number) {
    const bool known = number >= 0 && number < static_cast<std::int64_t>(model.pieces.size());
    return known ? std::optional(static_cast<TokenId>(number)) : std::nullopt;
  };
  model.unk = id(ids.unk);
  model.bos = id(ids.bos);
  model.eos = id(ids.eos);
  model.pad = id(ids.pad);
  return model;
}

}  // namespace lithe::tokenizer
