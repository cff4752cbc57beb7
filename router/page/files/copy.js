// "Copy as": the request that would be sent next, or was sent last, as a command.

import {announce} from "./announcer.js";
import {copyText} from "./clipboard.js";
import {asCurl, asGrpcurl, asPython} from "./commands.js";
import {make, setText} from "./dom.js";
import {panel} from "./parts.js";

const FORMS = {
  curl: {word: "curl", write: asCurl},
  python: {word: "Python", write: asPython},
  grpcurl: {word: "grpcurl", write: asGrpcurl},
};
const DEFAULT_GRPC_PORT = 50051;
const NOTHING_ASKED = [{role: "user", content: "Hello"}];

// `bodyNow()` is the request, or throws an Error that says what is wrong with its fields. `model` is {id, grpc}.
export function copyPanel(bodyNow, model) {
  const text = make("pre", {class: "code", id: "command", tabindex: "0", "aria-label": "Command"});
  const told = make("p", {class: "more", role: "status"});
  const box = make("div", {hidden: true}, text, told);

  async function copy(form) {
    box.hidden = false;
    try {
      const body = bodyNow();
      if (!body.messages.some((message) => message.role !== "system")) body.messages.push(...NOTHING_ASKED);
      setText(text, FORMS[form].write(body, {
        origin: location.origin,
        grpc: model.grpc ?? `${location.hostname}:${DEFAULT_GRPC_PORT}`,
        model: model.id,
        secure: location.protocol === "https:",
      }));
      await copyText(text.textContent);
      setText(told, `Copied as ${FORMS[form].word}. A router that asks for a key reads it from BATON_API_KEY.`);
      announce(`Copied as ${FORMS[form].word}.`);
    } catch (error) {
      setText(told, `Not copied: ${error.message}.`);
    }
  }

  const buttons = Object.entries(FORMS).map(([form, {word}]) =>
    make("button", {type: "button", "data-copy": form, click: () => copy(form)}, word));
  return {
    element: panel("copy-title", "Copy the request as", {class: "panel copy"},
      make("div", {class: "buttons"}, ...buttons), box),
  };
}
