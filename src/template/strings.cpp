#include "template/strings.h"

#include <algorithm>

#include "template/unicode.h"

namespace lithe::chat {
namespace {

/// Calls append(piece, code, at) for each code point, keeping the mark of the run it lies in.
template <typename Append>
Text map_code_points(const Text& text, Budget& budget, Append&& append) {
  TextBuilder out(budget);
  text.for_each_run([&](std::size_t begin, std::size_t end, bool untrusted) {
    std::string piece;
    for (std::size_t at = begin; at < end;) {
      const Decoded next = decode(text.view(), at);
      append(piece, next.code, at);
      at += next.size;
    }
    out.add(piece, untrusted);
  });
  return std::move(out).finish();
}

/// A sigma is written differently at the end of a word. `last_cased` is the state of one walk over the text.
struct SigmaRule {
  std::string_view text;
  Budget& budget;
  bool after_cased = false;

  void append(std::string& piece, char32_t code, std::size_t at) {
    if (code == 0x3A3 && after_cased && !before_cased(at + 2)) {
      encode(0x3C2, piece);
    } else {
      append_lower(code, piece);
    }
    note(code);
  }
  void note(char32_t code) {
    if (!is_case_ignorable(code)) after_cased = is_cased(code);
  }
  bool before_cased(std::size_t at) const {
    while (at < text.size()) {
      budget.step();
      const Decoded next = decode(text, at);
      if (!is_case_ignorable(next.code)) return is_cased(next.code);
      at += next.size;
    }
    return false;
  }
};

}  // namespace

Text to_upper(const Text& text, Budget& budget) {
  return map_code_points(text, budget,
                         [](std::string& piece, char32_t code, std::size_t) { append_upper(code, piece); });
}

Text to_lower(const Text& text, Budget& budget) {
  SigmaRule lower{text.view(), budget};
  return map_code_points(text, budget, [&](std::string& piece, char32_t code, std::size_t at) {
    lower.append(piece, code, at);
  });
}

Text to_capitalized(const Text& text, Budget& budget) {
  SigmaRule lower{text.view(), budget};
  return map_code_points(text, budget, [&](std::string& piece, char32_t code, std::size_t at) {
    if (at > 0) {
      lower.append(piece, code, at);
    } else {
      append_title(code, piece);
      lower.note(code);
    }
  });
}

Text to_title(const Text& text, Budget& budget) {
  SigmaRule lower{text.view(), budget};
  bool in_word = false;
  return map_code_points(text, budget, [&](std::string& piece, char32_t code, std::size_t at) {
    if (in_word) {
      lower.append(piece, code, at);
    } else {
      append_title(code, piece);
      lower.note(code);
    }
    in_word = is_cased(code);
  });
}

Text title_words(const Text& text, Budget& budget) {
  bool starts_word = true;
  SigmaRule lower{text.view(), budget};
  return map_code_points(text, budget, [&](std::string& piece, char32_t code, std::size_t at) {
    const bool separates =
        is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    if (starts_word) {
      append_upper(code, piece);
      lower.after_cased = false;  // the rest of the word is lowered by itself
    } else {
      lower.append(piece, code, at);
    }
    starts_word = separates;
  });
}

Text fold_case(const Text& text, Budget& budget) {
  return map_code_points(text, budget,
                         [](std::string& piece, char32_t code, std::size_t) { append_folded(code, piece); });
}

Text swap_case(const Text& text, Budget& budget) {
  SigmaRule lower{text.view(), budget};
  return map_code_points(text, budget, [&](std::string& piece, char32_t code, std::size_t at) {
    if (is_upper(code)) {
      lower.append(piece, code, at);
    } else {
      is_lower(code) ? append_upper(code, piece) : encode(code, piece);
      lower.note(code);
    }
  });
}

// --- stripping

Text strip(const Text& text, bool left, bool right, Budget& budget) {
  const std::size_t begin = left ? leading_space(text.view()) : 0;
  const std::size_t end = text.size() - (right ? trailing_space(text.view().substr(begin)) : 0);
  budget.scan(begin + text.size() - end);
  return text.sub(begin, end - begin);
}

Text strip_characters(const Text& text, std::string_view characters, bool left, bool right, Budget& budget) {
  std::size_t begin = 0, end = text.size();
  const std::string_view view = text.view();
  const auto listed = [&](std::size_t at, std::size_t size) {
    budget.scan(characters.size());
    return characters.find(view.substr(at, size)) != std::string_view::npos;  // both whole code points
  };
  while (left && begin < end) {
    const std::size_t size = decode(view, begin).size;
    if (!listed(begin, size)) break;
    begin += size;
  }
  while (right && begin < end) {
    const std::size_t at = previous(view.substr(begin, end - begin), end - begin) + begin;
    if (!listed(at, end - at)) break;
    end = at;
  }
  return text.sub(begin, end - begin);
}

// --- replacing and splitting

Text replace_all(const Text& text, const Text& old, const Text& with, Integer count, Budget& budget) {
  budget.scan(text.size());
  TextBuilder out(budget);
  const std::string_view view = text.view();
  std::size_t at = 0;
  if (old.empty()) {  // between all code points
    Integer done = 0;
    while (count < 0 || done < count) {
      out.add(with);
      ++done;
      if (at == text.size()) return std::move(out).finish();
      const std::size_t size = decode(view, at).size;
      out.add(text.sub(at, size));
      at += size;
    }
    out.add(text.sub(at, text.size() - at));
    return std::move(out).finish();
  }
  for (Integer done = 0; count < 0 || done < count; ++done) {
    const std::size_t found = view.find(old.view(), at);
    if (found == std::string_view::npos) break;
    out.add(text.sub(at, found - at));
    out.add(with);
    at = found + old.size();
  }
  if (at == 0) return text;
  out.add(text.sub(at, text.size() - at));
  return std::move(out).finish();
}

std::vector<Text> split_at(const Text& text, std::string_view separator, Integer limit, Budget& budget) {
  if (separator.empty()) misfit("empty separator");
  budget.scan(text.size());
  std::vector<Text> out;
  std::size_t at = 0;
  while (limit < 0 || static_cast<Integer>(out.size()) < limit) {
    const std::size_t found = text.view().find(separator, at);
    if (found == std::string_view::npos) break;
    budget.allocate(sizeof(Value));
    out.push_back(text.sub(at, found - at));
    at = found + separator.size();
  }
  out.push_back(text.sub(at, text.size() - at));
  return out;
}

std::vector<Text> split_at_from_right(const Text& text, std::string_view separator, Integer limit,
                                      Budget& budget) {
  if (separator.empty()) misfit("empty separator");
  budget.scan(text.size());
  std::vector<Text> out;
  std::size_t end = text.size();
  while ((limit < 0 || static_cast<Integer>(out.size()) < limit) && end >= separator.size()) {
    const std::size_t found = text.view().rfind(separator, end - separator.size());
    if (found == std::string_view::npos) break;
    budget.allocate(sizeof(Value));
    out.push_back(text.sub(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  out.push_back(text.sub(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_at_space(const Text& text, Integer limit, Budget& budget) {
  budget.scan(text.size());
  const std::string_view view = text.view();
  std::vector<Text> out;
  std::size_t at = leading_space(view);
  while (at < view.size()) {
    budget.allocate(sizeof(Value));
    if (limit >= 0 && static_cast<Integer>(out.size()) == limit) {
      out.push_back(text.sub(at, view.size() - at));  // blanks at its end stay
      return out;
    }
    std::size_t end = at;
    while (end < view.size() && !is_space(decode(view, end).code)) end += decode(view, end).size;
    out.push_back(text.sub(at, end - at));
    at = end + leading_space(view.substr(end));
  }
  return out;
}

std::vector<Text> split_at_space_from_right(const Text& text, Integer limit, Budget& budget) {
  budget.scan(text.size());
  const std::string_view view = text.view();
  std::vector<Text> out;
  std::size_t end = view.size() - trailing_space(view);
  while (end > 0) {
    budget.allocate(sizeof(Value));
    if (limit >= 0 && static_cast<Integer>(out.size()) == limit) {
      out.push_back(text.sub(0, end));
      break;
    }
    std::size_t begin = end;
    while (begin > 0) {
      const std::size_t at = previous(view, begin);
      if (is_space(decode(view, at).code)) break;
      begin = at;
    }
    out.push_back(text.sub(begin, end - begin));
    end = begin - trailing_space(view.substr(0, begin));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget) {
  budget.scan(text.size());
  const std::string_view view = text.view();
  std::vector<Text> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < view.size();) {
    const Decoded next = decode(view, at);
    if (!is_line_break(next.code)) {
      at += next.size;
      continue;
    }
    std::size_t end = at + next.size;
    if (next.code == '\r' && end < view.size() && view[end] == '\n') ++end;
    budget.allocate(sizeof(Value));
    out.push_back(text.sub(begin, (keep_ends ? end : at) - begin));
    begin = at = end;
  }
  if (begin < view.size()) out.push_back(text.sub(begin, view.size() - begin));
  return out;
}

// --- putting together

Text justify(const Text& text, Integer width, char32_t fill, Side side, Budget& budget) {
  budget.scan(text.size());
  const auto size = static_cast<Integer>(code_points(text.view()));
  if (width <= size) return text;
  const Integer pad = width - size;
  if (pad > (1 << 30)) budget.check_text(SIZE_MAX);
  // As CPython does: the odd one goes to the left where both the padding and the width are odd.
  const Integer left = side == Side::left ? 0 : side == Side::right ? pad : pad / 2 + (pad & width & 1);
  std::string piece;
  encode(fill, piece);
  TextBuilder out(budget);
  for (Integer i = 0; i < left; ++i) out.add(piece);
  out.add(text);
  for (Integer i = left; i < pad; ++i) out.add(piece);
  return std::move(out).finish();
}

Text join(const Text& separator, const std::vector<Text>& parts, Budget& budget) {
  TextBuilder out(budget);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.add(separator);
    out.add(parts[i]);
  }
  return std::move(out).finish();
}

}  // namespace lithe::chat
