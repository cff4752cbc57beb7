// Reads Markdown beside the page, which ends this worker where a text takes too long. It gets {text, offset} and posts what blocksOf()
// returns and the milliseconds that it took, or null for a text that is to be shown as it is.

import {blocksOf} from "./markdown_tree.js";

addEventListener("message", ({data: {text, offset}}) => {
  const began = performance.now();
  let found = null;
  try {
    found = {...blocksOf(text, offset), ms: performance.now() - began};
  } catch { /* too much of it, or nested too deep */ }
  postMessage(found);
});
