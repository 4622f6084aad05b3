#include "tokenizer/splitter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lithe::tokenizer {
namespace {

struct Segment {
  std::size_t begin, end;
  bool match;
};

/// Appends what a behaviour makes of matches and the gaps between them, in order.
void arrange(std::vector<Segment>& segments, SplitStep::Behavior behavior) {
  using enum SplitStep::Behavior;
  std::vector<Segment> out;
  const auto touches = [&](const Segment& a, const Segment& b) { return a.match == b.match; };
  bool after_match = false;
  switch (behavior) {
    case isolated:
      return;
    case removed:
      std::erase_if(segments, [](const Segment& segment) { return segment.match; });
      return;
    case contiguous:
      for (const Segment& segment : segments) {
        if (!out.empty() && touches(out.back(), segment)) {
          out.back().end = segment.end;
        } else {
          out.push_back(segment);
        }
      }
      break;
    case merged_with_previous:
      for (const Segment& segment : segments) {
        if (segment.match && !after_match && !out.empty()) {
          out.back().end = segment.end;
        } else {
          out.push_back(segment);
        }
        after_match = segment.match;
      }
      break;
    case merged_with_next:
      std::ranges::reverse(segments);
      for (const Segment& segment : segments) {
        if (segment.match && !after_match && !out.empty()) {
          out.back().begin = segment.begin;
        } else {
          out.push_back(segment);
        }
        after_match = segment.match;
      }
      std::ranges::reverse(out);
      break;
  }
  segments = std::move(out);
}

}  // namespace

Result<Splitter> Splitter::create(const Pipeline& pipeline) {
  Splitter splitter;
  splitter.spaced_ = pipeline.alphabet == Alphabet::spaced;
  if (!pipeline.pre.empty()) {
    const PreTokenizerRow* row = find_pre_tokenizer(pipeline.pre);
    if (row == nullptr) return unsupported("pre-tokenizer {}", pipeline.pre);
    LITHE_ASSIGN_OR_RETURN(PreTokenizer pre, PreTokenizer::create(*row));
    splitter.pre_.push_back(std::move(pre));
  }
  for (const SplitStep& what : pipeline.splits) {
    Step step{what, {}};
    if (what.kind == SplitStep::Kind::pattern) {
      LITHE_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(what.text));
      step.pattern.push_back(std::move(pattern));
    }
    splitter.steps_.push_back(std::move(step));
  }
  return splitter;
}

Status Splitter::cut(const Step& step, Pieces& pieces) {
  std::vector<Piece> out;
  std::vector<Segment> segments;
  for (const Piece& piece : pieces.list) {
    segments.clear();
    std::size_t at = 0;
    const std::string_view text = pieces.text.substr(piece.begin, piece.end - piece.begin);
    const auto add = [&](std::size_t begin, std::size_t end, bool match) {
      if (end > begin)
        segments.push_back({piece.begin + begin, piece.begin + end, match != step.what.invert});
    };
    LITHE_RETURN_IF_ERROR(step.pattern[0].matches(text, [&](std::size_t begin, std::size_t end) {
      add(at, begin, false);
      add(begin, end, true);
      at = end;
    }));
    add(at, text.size(), false);
    arrange(segments, step.what.behavior);
    for (const Segment& segment : segments) out.push_back({segment.begin, segment.end});
  }
  pieces.list = std::move(out);
  return {};
}

void Splitter::respace(const SplitStep& step, Pieces& pieces) const {
  const std::string_view from = spaced_ ? std::string_view(step.text) : " ",
                         to = spaced_ ? " " : std::string_view(step.text);
  if (pieces.text.find(from) == std::string_view::npos) return;
  std::string text;
  text.reserve(pieces.text.size());
  for (Piece& piece : pieces.list) {
    std::string_view old = pieces.text.substr(piece.begin, piece.end - piece.begin);
    piece.begin = text.size();
    for (std::size_t next; (next = old.find(from)) != std::string_view::npos;
         old.remove_prefix(next + from.size()))
      text.append(old.substr(0, next)).append(to);
    text += old;
    piece.end = text.size();
  }
  pieces.owned = std::move(text);
  pieces.text = pieces.owned;
}

void Splitter::put_prefix(const SplitStep& step, bool first, Pieces& pieces) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.list.size() * step.text.size());
  for (Piece& piece : pieces.list) {
    const std::string_view old = pieces.text.substr(piece.begin, piece.end - piece.begin);
    const bool here = !step.only_first || (first && piece.begin == 0);
    piece.begin = text.size();
    if (here && !old.starts_with(step.text)) text += step.text;
    text += old;
    piece.end = text.size();
  }
  pieces.owned = std::move(text);
  pieces.text = pieces.owned;
}

Status Splitter::run(std::string_view text, bool first, Pieces& pieces) const {
  pieces.text = text;
  if (pre_.empty()) {
    if (!text.empty()) pieces.list.push_back({0, text.size()});
  } else {
    LITHE_RETURN_IF_ERROR(pre_[0].split(text, [&](std::string_view word) {
      const auto begin = static_cast<std::size_t>(word.data() - text.data());
      pieces.list.push_back({begin, begin + word.size()});
    }));
  }
  for (const Step& step : steps_) {
    if (step.what.kind == SplitStep::Kind::prefix) {
      put_prefix(step.what, first, pieces);
    } else if (step.what.kind == SplitStep::Kind::respace) {
      respace(step.what, pieces);
    } else {
      LITHE_RETURN_IF_ERROR(cut(step, pieces));
    }
  }
  return {};
}

}  // namespace lithe::tokenizer
