// The plain model that shared blocks are compared with: every prefix by its name, and which blocks
// of the pool the prefix cache has to find for it.
#pragma once

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/block_pool.h"

namespace baton {

// Names of prefixes: a node stands for a salt and a sequence of tokens.
class PrefixTree {
 public:
  using Node = int64_t;  // 0: none

  Node Child(Node parent, int32_t token) {
    const auto [entry, added] = children_.try_emplace({parent, token}, next_node_);
    if (added) parents_.push_back(parent), ++next_node_;
    return entry->second;
  }
  Node Parent(Node node) const { return parents_[static_cast<size_t>(node)]; }
  Node Ancestor(Node node, int generations) const {
    for (int i = 0; i < generations; ++i) node = Parent(node);
    return node;
  }
  // Whether `node` is `prefix` or continues it.
  bool Continues(Node node, Node prefix) const {
    while (node > prefix) node = Parent(node);
    return node == prefix;
  }
  // The node of each token.
  std::vector<Node> NodesOf(const std::vector<int32_t>& tokens, const std::string& salt) {
    std::vector<Node> nodes;
    Node node = Child(0, salt.empty() ? -1 : -2);
    for (const int32_t token : tokens) nodes.push_back(node = Child(node, token));
    return nodes;
  }

 private:
  std::map<std::pair<Node, int32_t>, Node> children_;
  std::vector<Node> parents_ = {0};  // [node], always less than the node
  Node next_node_ = 1;
};

// Without collisions of hashes: with them a prefix cache holds less.
class PlainCache {
 public:
  using Node = PrefixTree::Node;

  // `tree` and `pool` outlive it.
  PlainCache(int block_size, const PrefixTree& tree, const BlockPool& pool)
      : block_size_(block_size), tree_(tree), pool_(pool) {}

  size_t size() const { return held_.size(); }
  bool IsHeld(Node node) const {
    const auto held = held_.find(node);
    return held != held_.end() && pool_.Lives(held->second);
  }

  // The blocks that a sequence with these nodes must find, but for its last token.
  std::vector<int32_t> Find(const std::vector<Node>& nodes) const {
    std::vector<int32_t> blocks;
    const auto step = static_cast<size_t>(block_size_);
    for (size_t end = step; end < nodes.size() && IsHeld(nodes[end - 1]); end += step) {
      blocks.push_back(held_.at(nodes[end - 1]).id);
    }
    return blocks;
  }

  // The tokens [first_token, end_token) were computed into the blocks of `table`.
  void Enter(const std::vector<Node>& nodes, const std::vector<int32_t>& table, int first_token,
             int end_token) {
    const auto node_at = [&](int token) { return nodes[static_cast<size_t>(token)]; };
    for (int end = (first_token / block_size_ + 1) * block_size_; end <= end_token;
         end += block_size_) {
      const auto index = static_cast<size_t>(end / block_size_) - 1;
      if (end > block_size_) {
        const Node before = node_at(end - 1 - block_size_);
        if (!IsHeld(before) || held_.at(before).id != table[index - 1]) return;
      }
      // Either it uses what was held, or what it computed is held now.
      held_[node_at(end - 1)] = pool_.Ref(table[index]);
    }
  }

  // The block is no longer held for the node, nor what continues it.
  void Forget(Node node, int32_t block) {
    if (!IsHeld(node) || held_.at(node).id != block) return;
    for (auto entry = held_.begin(); entry != held_.end();) {
      entry = tree_.Continues(entry->first, node) ? held_.erase(entry) : std::next(entry);
    }
  }

  // Drops what the pool has given to others. Returns how many that are.
  int64_t DropEvicted() {
    const size_t before = held_.size();
    std::erase_if(held_, [this](const auto& entry) { return !IsHeld(entry.first); });
    return static_cast<int64_t>(before - held_.size());
  }

  void CheckThatPrefixesAreEvictedLast() const {
    for (const auto& [node, held] : held_) {
      const Node before = tree_.Ancestor(node, block_size_);
      const bool begins = tree_.Parent(before) == 0;
      ASSERT_TRUE(begins || held_.contains(before)) << "evicted before what continues it";
    }
  }

 private:
  const int block_size_;
  const PrefixTree& tree_;
  const BlockPool& pool_;
  std::map<Node, BlockRef> held_;  // [last token of a whole block]
};

}  // namespace baton
