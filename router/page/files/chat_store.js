// Keeps the chat in this tab of the browser, so that it survives a reload of the page. A chat that is too long, or a browser that
// keeps nothing, is no error: then there is no chat after a reload.

const KEY = "baton-chat";
const VERSION = 1;
const MOST_CHARACTERS = 1000000;  // browsers take about five times that from one site

export function forgetChat() {
  try {
    sessionStorage.removeItem(KEY);
  } catch { /* storage is switched off */ }
}

// Whether the chat is kept. An older one is forgotten if it is not.
export function keepChat(chat) {
  try {
    const text = JSON.stringify({version: VERSION, ...chat});
    if (text.length <= MOST_CHARACTERS) {
      sessionStorage.setItem(KEY, text);
      return true;
    }
  } catch { /* storage is full, or switched off */ }
  forgetChat();
  return false;
}

// The chat that was kept; undefined if there is none, or one of another version of the page.
export function keptChat() {
  try {
    const chat = JSON.parse(sessionStorage.getItem(KEY));
    return chat?.version === VERSION ? chat : undefined;
  } catch {
    return undefined;
  }
}
