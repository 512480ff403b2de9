// One file of a repository, from the Hub to its blob in the cache: resumed where an earlier attempt ended, verified by
// its checksum, retried with growing pauses. What is at the blob's place is complete and right; what is not yet so lies
// in ID.incomplete.
//
// A file that began in another process is continued only under its own checksum, which names it, and begun anew once if
// the whole does not have that checksum; within a process a continuation also says If-Range.
#pragma once

#include <functional>
#include <string>

#include "hub/cache.h"
#include "hub/http_client.h"

namespace weir::hub {

struct BlobRequest {
  std::string url;   // of the file at its commit
  std::string path;  // in the repository
  std::string id;
  std::string etag;  // as the Hub's own origin gave it, if it will give the contents too; for If-Range
  std::int64_t bytes = 0;
  int retries = 5;
};

// What happens, for whoever watches. Called on the thread that pulls.
class PullListener {
 public:
  virtual ~PullListener() = default;
  virtual void note(const std::string& text) = 0;
  // `have` of `bytes` are there already.
  virtual void file_begins(const std::string& path, std::int64_t bytes, std::int64_t have) = 0;
  virtual void file_advances(std::int64_t have) = 0;
  virtual void file_ends() = 0;
};

// Calls `attempt` until it succeeds, fails for good or has failed `retries` times more; pauses between. `what` it is
// about stands in front of every message. `progressed`:
// whether the last attempt brought enough to begin counting anew.
Status with_retries(const std::string& what, int retries, PullListener& listener,
                    const std::function<HttpResult<void>()>& attempt,
                    const std::function<bool()>& progressed = nullptr);

// Why an answer is no answer: what the status means on the Hub, and what can be done. `what`: of what it was asked.
HttpFailure refusal(const HttpHead& head, const std::string& what);

Status download_blob(HttpClient& client, const Cache& cache, const ModelRef& ref, const BlobRequest& request,
                     PullListener& listener);

}  // namespace weir::hub
