// The planner's page over HTTP: what answers a request for it, for any server of weir to mount.
#pragma once

#include <memory>
#include <string>

#include "api/http.h"
#include "api/work_queue.h"

namespace weir::apps {

class PlanPage {
 public:
  // `mount`: where the page stands, with a slash at the end; "/" alone on a server of its own.
  explicit PlanPage(std::string mount = "/");

  bool is_mine(const api::HttpRequest& request) const { return request.path.starts_with(mount_); }
  // Plans on a thread of its own. Access is the server's to check, before.
  void handle(api::HttpRequest request, std::shared_ptr<api::Reply> reply);
  void stop() { queue_.stop(); }

 private:
  std::string mount_;
  api::WorkQueue queue_;
};

}  // namespace weir::apps
