#include "client/doctor/gpu_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/backend/cuda_versions.h"

namespace baton {
namespace {

constexpr CudaVersion kLeastDriver = 12000;  // runs builds of later minor versions, too

constexpr char kAlsoCpu[] = ", or use --device cpu";

// The drivers that know the oldest toolkit: "CUDA 12.4 (550 or newer)".
std::string LeastToolkitText() {
  return absl::StrCat("CUDA ", CudaVersionText(kLeastCudaToolkit), " (", kLeastToolkitsDriver,
                      " or newer)");
}

std::string GibibytesText(uint64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (uint64_t{1} << 30));
}

Finding DriverFinding(const GpuFacts& facts) {
  Finding finding{.check = "gpu.driver"};
  if (!facts.hardware) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "this machine has no NVIDIA GPU";
    return finding;
  }
  finding.found = facts.kernel_driver.empty() ? "the kernel has no NVIDIA module"
                                              : "kernel module " + facts.kernel_driver;
  if (facts.driver_cuda > 0) {
    absl::StrAppend(&finding.found, ", supports CUDA up to ", CudaVersionText(facts.driver_cuda));
  }
  const bool for_cpu = facts.backend.code() == absl::StatusCode::kUnimplemented;
  if (!facts.error.empty() || facts.devices.empty()) {
    finding.verdict = for_cpu ? Verdict::kWarning : Verdict::kFailed;
    absl::StrAppend(&finding.found, "; ",
                    facts.error.empty() ? "the driver finds no GPU" : facts.error.c_str());
    finding.remedy =
        absl::StrCat("install a driver for ", LeastToolkitText(),
                     ", and check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, let the "
                     "runtime provide the GPU and the driver's libraries",
                     kAlsoCpu);
  } else if (facts.driver_cuda < kLeastDriver) {
    finding.verdict = for_cpu ? Verdict::kWarning : Verdict::kFailed;
    finding.remedy = absl::StrCat("update the driver to one for ", LeastToolkitText(), kAlsoCpu);
  } else if (facts.driver_cuda < kLeastCudaToolkit) {
    finding.verdict = Verdict::kWarning;
    finding.remedy = absl::StrCat("update the driver to one for ", LeastToolkitText(),
                                  ": the present driver runs only builds with code for exactly "
                                  "this GPU, such as BATON_CUDA_ARCHITECTURES=80-real");
  }
  return finding;
}

Finding BuildFinding(const GpuFacts& facts) {
  Finding finding{.check = "gpu.build", .found = "this build can use the first GPU"};
  if (facts.backend.ok()) return finding;
  const std::string toolkit =
      absl::StrCat("use a build made with a CUDA Toolkit of ", CudaVersionText(kLeastCudaToolkit),
                   facts.driver_cuda > kLeastCudaToolkit
                       ? absl::StrCat(" to ", CudaVersionText(facts.driver_cuda))
                       : "",
                   " (CUDACXX=NVCC scripts/gpu_bundle.sh, or cmake --preset cuda)");
  if (facts.backend.code() == absl::StatusCode::kUnimplemented) {
    finding.verdict = Verdict::kWarning;
    finding.found = "this build has no CUDA support, so models run on the CPU";
    finding.remedy = toolkit;
    return finding;
  }
  finding.verdict = Verdict::kFailed;
  finding.found = std::string(facts.backend.message());
  finding.remedy = absl::StrCat(toolkit, kAlsoCpu);
  return finding;
}

Finding DeviceFinding(const GpuDevice& device, size_t number) {
  Finding finding{.check = "gpu.device", .subject = absl::StrCat("cuda:", number)};
  finding.found = absl::StrCat(device.name, ", compute capability ", device.major, ".",
                               device.minor, ", ", GibibytesText(device.total_bytes));
  if (device.free_bytes > 0) {
    absl::StrAppend(&finding.found, ", ", GibibytesText(device.free_bytes), " free");
  }
  if (device.major < kLeastComputeMajor) {
    finding.verdict = Verdict::kFailed;
    finding.remedy = absl::StrCat("use a GPU of compute capability ", kLeastComputeMajor,
                                  ".0 or newer", kAlsoCpu);
  } else if (device.compute_mode == GpuComputeMode::kProhibited) {
    finding.verdict = Verdict::kFailed;
    finding.found += "; its compute mode prohibits computation";
    finding.remedy = absl::StrCat("nvidia-smi -i ", number, " -c DEFAULT");
  } else if (device.free_bytes > 0 && device.free_bytes < device.total_bytes / 10) {
    finding.verdict = Verdict::kWarning;
    finding.remedy =
        "stop other programs that use this GPU (nvidia-smi lists them), or lower "
        "--gpu-memory-utilization";
  }
  return finding;
}

Finding SharingFinding(const GpuFacts& facts, int workers) {
  Finding finding{.check = "gpu.sharing"};
  finding.found = absl::StrCat(
      workers, " workers on ", facts.devices.size(), facts.devices.size() == 1 ? " GPU" : " GPUs",
      "; NVIDIA's multi-process service ", facts.mps_runs ? "runs" : "does not run");
  if (facts.mps_runs) return finding;
  const bool exclusive = facts.devices.front().compute_mode == GpuComputeMode::kExclusive;
  finding.verdict = exclusive ? Verdict::kFailed : Verdict::kWarning;
  finding.remedy = absl::StrCat(
      exclusive ? "the first GPU accepts one process at a time: use "
                : "the workers' kernels take turns: use ",
      "baton serve --cuda-mps, or start nvidia-cuda-mps-control -d, or give each worker a GPU "
      "(--device cuda:N)");
  return finding;
}

}  // namespace

Findings GpuFindings(const GpuFacts& facts, int workers) {
  Findings findings = {DriverFinding(facts)};
  if (facts.devices.empty()) return findings;
  findings.push_back(BuildFinding(facts));
  for (size_t i = 0; i < facts.devices.size(); ++i) {
    findings.push_back(DeviceFinding(facts.devices[i], i));
  }
  if (workers > static_cast<int>(facts.devices.size())) {
    findings.push_back(SharingFinding(facts, workers));
  }
  return findings;
}

}  // namespace baton
