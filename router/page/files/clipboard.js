// Copies text to the clipboard, and the buttons that do so.

import {announce} from "./announcer.js";
import {make, setText} from "./dom.js";

const SAID_MS = 2000;

// A page that came over plain HTTP from another machine has no clipboard. There the text of a field can still be copied.
function copyFromField(text) {
  const focused = document.activeElement;
  const field = make("textarea", {class: "unseen", readonly: true, "aria-hidden": "true", tabindex: "-1"});
  field.value = text;
  document.body.append(field);
  field.focus({preventScroll: true});
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  focused?.focus({preventScroll: true});
  if (!copied) throw new Error("this browser does not let the page copy");
}

// Throws an Error that says why the text was not copied.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* not allowed, or there is none */
    copyFromField(text);
  }
}

// A button that copies what textNow() returns. `what` is a noun with its article, such as "the code".
export function copyButton(what, textNow) {
  const word = make("span", {}, "Copy");
  const say = (short, sentence) => {
    setText(word, short);
    announce(sentence);
    setTimeout(() => setText(word, "Copy"), SAID_MS);
  };
  const copy = async () => {
    try {
      await copyText(textNow());
      say("Copied", `Copied ${what}.`);
    } catch (error) {
      say("Not copied", `Not copied: ${error.message}.`);
    }
  };
  return make("button", {type: "button", class: "quiet copies", "aria-label": `Copy ${what}`, click: copy}, word);
}
