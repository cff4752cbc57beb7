#include "client/doctor/gpu_facts.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/doctor/machine_files.h"
#include "common/backend/make_backend.h"

namespace baton {
namespace {

constexpr char kNvidiaVendor[] = "0x10de";

// Null if there is none. It stays until the process ends: those of the driver start threads.
void* OpenLibrary(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

// The function of that name as a pointer of the wanted type; null: the library has none.
template <typename Function>
Function Find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

// The part of the CUDA driver's interface that is asked here, as NVIDIA's manual of it says.
struct CudaDriver {
  static constexpr int kComputeMode = 20, kMajor = 75, kMinor = 76;  // attributes of a device

  explicit CudaDriver(void* library)
      : init(Find<int (*)(unsigned)>(library, "cuInit")),
        version(Find<int (*)(int*)>(library, "cuDriverGetVersion")),
        count(Find<int (*)(int*)>(library, "cuDeviceGetCount")),
        device(Find<int (*)(int*, int)>(library, "cuDeviceGet")),
        name(Find<int (*)(char*, int, int)>(library, "cuDeviceGetName")),
        total(Find<int (*)(size_t*, int)>(library, "cuDeviceTotalMem_v2")),
        attribute(Find<int (*)(int*, int, int)>(library, "cuDeviceGetAttribute")),
        error_name(Find<int (*)(int, const char**)>(library, "cuGetErrorName")) {}

  bool whole() const {
    return init != nullptr && version != nullptr && count != nullptr && device != nullptr &&
           name != nullptr && total != nullptr && attribute != nullptr;
  }
  std::string ErrorText(int error) const {
    const char* text = nullptr;
    if (error_name != nullptr && error_name(error, &text) == 0 && text != nullptr) return text;
    return absl::StrCat("error ", error);
  }
  int Attribute(int which, int of_device) const {
    int value = 0;
    return attribute(&value, which, of_device) == 0 ? value : 0;
  }

  int (*init)(unsigned flags);
  int (*version)(int* version);
  int (*count)(int* devices);
  int (*device)(int* device, int ordinal);
  int (*name)(char* name, int bytes, int device);
  int (*total)(size_t* bytes, int device);
  int (*attribute)(int* value, int which, int device);
  int (*error_name)(int error, const char** text);
};

GpuComputeMode ComputeModeOf(int value) {
  constexpr int kProhibited = 2, kExclusiveThread = 1, kExclusiveProcess = 3;
  if (value == kProhibited) return GpuComputeMode::kProhibited;
  return value == kExclusiveThread || value == kExclusiveProcess ? GpuComputeMode::kExclusive
                                                                 : GpuComputeMode::kShared;
}

// The version in the driver's words: "NVRM version: NVIDIA UNIX ... Module  550.54.15  Tue ...".
std::string KernelDriver(const std::string& text) {
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \t\n"))) {
    const bool version = std::count(word.begin(), word.end(), '.') >= 1 &&
                         std::all_of(word.begin(), word.end(),
                                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
    if (version) return std::string(word);
  }
  return "";
}

// Whether a PCI device of NVIDIA's is a display or 3D controller (class 0x03....).
bool HasNvidiaDevice(const std::string& root) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root + "/sys/bus/pci/devices", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string folder = entry->path().string();
    if (ReadMachineLine(folder + "/vendor") != kNvidiaVendor) continue;
    if (ReadMachineLine(folder + "/class").substr(0, 4) == "0x03") return true;
  }
  return false;
}

bool ProcessRuns(const std::string& root, absl::string_view name) {
  // The kernel keeps 15 bytes of a process's name.
  for (const std::string& process : NumberedEntries(root + "/proc", "")) {
    if (ReadMachineLine(absl::StrCat(root, "/proc/", process, "/comm")) == name.substr(0, 15)) {
      return true;
    }
  }
  return false;
}

// Free memory by NVML, which needs no context on the device. It numbers devices otherwise than CUDA
// does, so it is asked only if the machine has one.
void AddFreeMemory(GpuFacts& facts) {
  struct Memory {
    unsigned long long total, free, used;
  };
  void* const nvml = OpenLibrary("libnvidia-ml.so.1");
  const auto init = Find<int (*)()>(nvml, "nvmlInit_v2");
  const auto count_of = Find<int (*)(unsigned*)>(nvml, "nvmlDeviceGetCount_v2");
  const auto handle_of = Find<int (*)(unsigned, void**)>(nvml, "nvmlDeviceGetHandleByIndex_v2");
  const auto memory_of = Find<int (*)(void*, Memory*)>(nvml, "nvmlDeviceGetMemoryInfo");
  const auto shutdown = Find<int (*)()>(nvml, "nvmlShutdown");
  if (init == nullptr || count_of == nullptr || handle_of == nullptr || memory_of == nullptr ||
      shutdown == nullptr || facts.devices.size() != 1 || init() != 0) {
    return;
  }
  unsigned count = 0;
  void* handle = nullptr;
  Memory memory{};
  if (count_of(&count) == 0 && count == 1 && handle_of(0, &handle) == 0 &&
      memory_of(handle, &memory) == 0) {
    facts.devices.front().free_bytes = memory.free;
  }
  shutdown();
}

void AddDevices(const CudaDriver& driver, GpuFacts& facts) {
  driver.version(&facts.driver_cuda);
  int count = 0;
  int error = driver.init(0);
  if (error == 0) error = driver.count(&count);
  if (error != 0) {
    facts.error = driver.ErrorText(error);
    return;
  }
  for (int i = 0; i < count; ++i) {
    int device = 0;
    std::array<char, 256> name{};
    size_t total = 0;
    if (driver.device(&device, i) != 0) continue;
    driver.name(name.data(), static_cast<int>(name.size()) - 1, device);
    driver.total(&total, device);
    facts.devices.push_back(
        {.name = name.data(),
         .major = driver.Attribute(CudaDriver::kMajor, device),
         .minor = driver.Attribute(CudaDriver::kMinor, device),
         .total_bytes = total,
         .compute_mode = ComputeModeOf(driver.Attribute(CudaDriver::kComputeMode, device))});
  }
}

}  // namespace

GpuFacts GatherGpuFacts(const std::string& root) {
  GpuFacts facts;
  facts.kernel_driver = KernelDriver(ReadMachineFile(root + "/proc/driver/nvidia/version"));
  facts.hardware = !facts.kernel_driver.empty() || HasNvidiaDevice(root);
  void* const library = OpenLibrary("libcuda.so.1");
  const CudaDriver driver(library);
  if (driver.whole()) {
    AddDevices(driver, facts);
  } else {
    facts.error =
        library == nullptr ? "there is no libcuda.so.1" : "libcuda.so.1 is not that of a driver";
  }
  facts.hardware |= !facts.devices.empty();
  if (!facts.hardware) return facts;
  AddFreeMemory(facts);
  facts.mps_runs = ProcessRuns(root, "nvidia-cuda-mps-control");
  facts.backend = MakeBackend({.device = "cuda"}).status();
  return facts;
}

}  // namespace baton
