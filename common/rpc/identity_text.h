// A model's identity in words, and whether two are one.
#pragma once

#include <string>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// Every field, spelled out for an error message; digests in hexadecimal.
std::string IdentityText(const internal::v1::ModelIdentity& identity);
bool SameIdentity(const internal::v1::ModelIdentity& a, const internal::v1::ModelIdentity& b);

}  // namespace baton
