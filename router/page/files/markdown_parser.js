// Gives texts to the worker that reads Markdown, one after the other. The worker is made with the first of them.

const DEADLINE_MS = 4000;
let worker;
let last = Promise.resolve();

function ask(text, offset) {
  return new Promise((resolve) => {
    worker ??= new Worker("/page/markdown_worker.js", {type: "module"});
    const asked = worker;
    const end = (found) => {
      clearTimeout(timer);
      asked.onmessage = null;
      asked.onerror = null;
      if (found === undefined) {  // it goes on, or cannot begin: the next text gets another
        asked.terminate();
        worker = undefined;
      }
      resolve(found ?? undefined);
    };
    const timer = setTimeout(() => end(undefined), DEADLINE_MS);
    asked.onmessage = ({data}) => end(data);
    asked.onerror = () => end(undefined);
    asked.postMessage({text, offset});
  });
}

// What blocksOf() of markdown_tree.js returns, with `ms`; undefined for a text that is to be shown as it is.
export function parseMarkdown(text, offset) {
  last = last.then(() => ask(text, offset)).catch(() => undefined);
  return last;
}
