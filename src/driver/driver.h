// The load driver: sends a Workload to an OpenAI server over HTTP/1.1 and records what became of each request.
//
// Open loop: a request goes out when it is due, whatever became of the others; where it cannot (the driver was late, no
// connection, --max-concurrency), its clock runs from when it was due all the same. Everything runs on the calling
// thread over non-blocking sockets; connections are kept and used again, the one used last first. Cost: some 20 us a
// request and 10 us an event, so that the driver can share a small machine with the server; how late it was and how
// much of a core it took are part of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/record.h"
#include "driver/workload.h"

namespace weir::driver {

struct DriverOptions {
  std::string base_url = "http://127.0.0.1:8000";  // http only
  std::string endpoint = "/v1/completions";
  std::string model;    // empty: the server's first (asked of /v1/models)
  std::string api_key;  // empty: none
  double temperature = 0;
  bool ignore_eos = true;
  bool stream = true;
  int max_in_flight = 0;   // 0: no limit; else requests beyond wait here, their clocks running
  double timeout_s = 600;  // of one request, from when it was due
  double limit_s = 0;      // requests that would be sent later than this are not sent at all; 0: no limit
  bool urgent = true;      // ask the system to run this thread before others when it is due
  // Called on the driver's thread after each finished request, with how many have.
  std::function<void(std::size_t)> on_progress;
};

struct RunResult {
  std::vector<RequestRecord> records;  // by index, of the requests that were sent
  std::string model;
  double start_s = 0, end_s = 0;      // the first due time's zero, the last answer
  double client_cpu_s = 0;            // of the driver's thread
  int connections = 0;                // opened in all
  std::int64_t open_loop_queued = 0;  // requests that waited for max_in_flight
};

struct BaseUrl {
  std::string host, port, path;  // path: without its last slash
};
Result<BaseUrl> parse_base_url(const std::string& url);

// The id of the server's first model (/v1/models). kNotFound: nothing answers there, or it names none.
Result<std::string> first_model(const std::string& base_url, const std::string& api_key);

// Fails where nothing can be asked at all (a bad URL, no server); else failures are in the records.
Result<RunResult> run_workload(const Workload& workload, const DriverOptions& options);

}  // namespace weir::driver
