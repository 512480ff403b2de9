#include "apps/plan_page.h"

#include <atomic>

#include "plan/page/page.h"

namespace weir::apps {
namespace {

// A plan takes some seconds of a core, so one at a time, and who would wait for more than a few is told so.
constexpr std::size_t kWaitingPlans = 16;

void send(api::Reply& reply, plan::PageAnswer answer) {
  reply.send(answer.status, answer.content_type, std::move(answer.body),
             {{"Content-Security-Policy", std::string(plan::kPagePolicy)},
              {"X-Content-Type-Options", "nosniff"},
              {"Referrer-Policy", "no-referrer"},
              {"Cache-Control", "no-store"}});
}

}  // namespace

PlanPage::PlanPage(std::string mount) : mount_(std::move(mount)), queue_("weir-plan", kWaitingPlans) {}

void PlanPage::handle(api::HttpRequest request, std::shared_ptr<api::Reply> reply) {
  std::string path = request.path.substr(mount_.size() - 1);
  // Files and tables are at hand.
  if (request.method != "POST") return send(*reply, plan::answer_page(request.method, path, {}));
  auto gone = std::make_shared<std::atomic<bool>>(false);
  reply->on_gone([gone] { *gone = true; });
  auto task = [request = std::make_shared<api::HttpRequest>(std::move(request)), path = std::move(path), reply, gone] {
    if (!*gone) send(*reply, plan::answer_page(request->method, path, request->body));
  };
  if (!queue_.post(std::move(task))) {
    send(*reply, {503, "application/json",
                  R"({"error":{"message":"too many plans are waiting; ask again in some seconds","field":""}})"});
  }
}

}  // namespace weir::apps
