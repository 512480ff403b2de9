// What the planner's commands about one model on one kind of hardware have in common on the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "plan/subject.h"

namespace weir::apps {

enum class HardwareOption { kRequired, kOptional };
void add_subject_options(CLI::App& command, plan::SubjectQuery& query, HardwareOption hardware);

// Whether any of --tp, --pp, --dp, --ep, --cp was given.
bool layout_given(const CLI::App& command);

}  // namespace weir::apps
