// The text of a model's identity, and the comparison of two identities.
#pragma once

#include <string>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// All fields, spelled out for an error message, with digests in hexadecimal.
std::string IdentityText(const internal::v1::ModelIdentity& identity);
bool SameIdentity(const internal::v1::ModelIdentity& a, const internal::v1::ModelIdentity& b);

}  // namespace baton
