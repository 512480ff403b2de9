// The two tables of filters: on texts and numbers, and on collections.
#pragma once

#include <span>

#include "text/jinja/builtins.h"

namespace weir::text::jinja {

std::span<const Filter> text_filters();
std::span<const Filter> item_filters();

}  // namespace weir::text::jinja
