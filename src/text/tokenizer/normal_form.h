// Unicode normalisation forms of UTF-8 text. NFC and NFD by own tables (Unicode 16), NFKC and NFKD by utf8proc (Unicode
// 15).
//
// Bytes that are not UTF-8 pass unchanged and block composition across them. Cost: linear, n log n within one run of
// combining marks.
#pragma once

#include <string>
#include <string_view>

namespace weir::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

std::string normalize(std::string_view text, NormalForm form);

// A quick, sure test: true means that NFC leaves the text as it is.
bool surely_nfc(std::string_view text);

}  // namespace weir::text
