#include "text/tokenizer/json_document.h"

#include <optional>

namespace weir::text {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;

// Builds `rest` with a stack of open containers; inside model.vocab and model.merges it fills the vectors instead.
class Reader : public json::json_sax_t {
 public:
  explicit Reader(TokenizerDocument& document) : document_(document) {}

  bool null() override { return value(json(nullptr)); }
  bool boolean(bool v) override { return value(json(v)); }
  bool number_integer(number_integer_t v) override {
    if (mode_ == Mode::kPieces) return piece_score(static_cast<double>(v));
    return mode_ == Mode::kVocab ? vocab_entry(v) : value(json(v));
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (mode_ == Mode::kPieces) return piece_score(static_cast<double>(v));
    if (mode_ != Mode::kVocab) return value(json(v));
    return vocab_entry(v > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(v));
  }
  bool number_float(number_float_t v, const string_t&) override {
    return mode_ == Mode::kPieces ? piece_score(v) : value(json(v));
  }
  bool string(string_t& v) override {
    if (mode_ == Mode::kPieces) return piece_text(std::move(v));
    return mode_ == Mode::kMerges ? merge_part(std::move(v)) : value(json(std::move(v)));
  }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool start_object(std::size_t) override {
    if (mode_ != Mode::kTree) return refuse("an object inside model.vocab or model.merges");
    if (at_model_member("vocab")) {
      mode_ = Mode::kVocab;
      return true;
    }
    return open(json::object());
  }
  bool end_object() override {
    if (mode_ == Mode::kVocab) {
      mode_ = Mode::kTree;
      return true;
    }
    return close();
  }
  bool start_array(std::size_t) override {
    if (mode_ == Mode::kVocab) return refuse("a list inside model.vocab");
    if (mode_ == Mode::kMerges || mode_ == Mode::kPieces) {
      if (in_pair_) return refuse("a list inside a merge or a piece");
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (at_model_member("merges")) {
      mode_ = Mode::kMerges;
      return true;
    }
    if (at_model_member("vocab")) {
      mode_ = Mode::kPieces;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (mode_ != Mode::kMerges && mode_ != Mode::kPieces) return close();
    if (!in_pair_) {
      mode_ = Mode::kTree;
      return true;
    }
    in_pair_ = false;
    if (mode_ == Mode::kPieces) {
      const bool whole = document_.scores.size() == document_.vocab.size();
      return whole || refuse("a piece in model.vocab without a score");
    }
    if (pair_.size() != 2) return refuse("a merge that has not two parts");
    document_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
    return true;
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    problem_ = fmt::format("it is not JSON (or not UTF-8) near byte {}", position);
    return false;
  }

  const std::string& problem() const { return problem_; }

 private:
  enum class Mode { kTree, kVocab, kPieces, kMerges };

  bool refuse(std::string_view what) {
    problem_ = fmt::format("it has {}", what);
    return false;
  }

  bool at_model_member(std::string_view name) const { return stack_.size() == 2 && in_model_ && key_ == name; }

  json* place(json&& v) {
    if (stack_.empty()) {
      document_.rest = std::move(v);
      return &document_.rest;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &(parent[key_] = std::move(v));
  }

  bool value(json&& v) {
    if (mode_ != Mode::kTree) return refuse("a value of the wrong kind in model.vocab or model.merges");
    place(std::move(v));
    return true;
  }

  bool open(json&& container) {
    if (stack_.size() >= kMaxDepth) return refuse(fmt::format("more than {} levels", kMaxDepth));
    if (stack_.size() == 1) in_model_ = key_ == "model";
    stack_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  bool vocab_entry(std::int64_t id) {
    document_.vocab.emplace_back(std::move(key_), id);
    return true;
  }

  bool piece_text(std::string&& text) {
    if (!in_pair_ || document_.scores.size() != document_.vocab.size()) return refuse("a string in the wrong place");
    document_.vocab.emplace_back(std::move(text), static_cast<std::int64_t>(document_.vocab.size()));
    return true;
  }

  bool piece_score(double score) {
    if (document_.scores.size() + 1 != document_.vocab.size()) return refuse("a number in the wrong place");
    document_.scores.push_back(score);
    return true;
  }

  bool merge_part(std::string&& text) {
    if (in_pair_) {
      if (pair_.size() == 2) return refuse("a merge of three parts");
      pair_.push_back(std::move(text));
      return true;
    }
    const std::size_t space = text.find(' ', 1);
    if (text.empty() || space == std::string::npos) return refuse("a merge without a space between two parts");
    document_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    return true;
  }

  TokenizerDocument& document_;
  // Pointers stay valid: only the innermost open container grows, and it holds no open one but the next of the stack.
  std::vector<json*> stack_;
  std::string key_;
  Mode mode_ = Mode::kTree;
  bool in_model_ = false;
  bool in_pair_ = false;
  std::vector<std::string> pair_;
  std::string problem_;
};

}  // namespace

Result<TokenizerDocument> read_tokenizer_document(std::string_view text) {
  TokenizerDocument document;
  Reader reader(document);
  bool read = false;
  try {
    read = json::sax_parse(text, &reader);
  } catch (const std::exception& e) {
    return fail(ErrorCode::kCorruptFile, "tokenizer.json cannot be read: {}", e.what());
  }
  if (!read) return fail(ErrorCode::kCorruptFile, "tokenizer.json cannot be read: {}", reader.problem());
  if (!document.rest.is_object()) return fail(ErrorCode::kCorruptFile, "tokenizer.json is not a JSON object");
  return document;
}

}  // namespace weir::text
