// What tests measure in the page: contrast, controls, widths. Each function returns a list of what is wrong.

function visible(element) {
  return element.checkVisibility({visibilityProperty: true, opacityProperty: true}) && !element.closest(".unseen, .skip, noscript");
}

// [red, green, blue, alpha], 0 to 1, as the browser itself reads the colour.
const painter = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
function channels(colour) {
  painter.clearRect(0, 0, 1, 1);
  painter.fillStyle = colour;
  painter.fillRect(0, 0, 1, 1);
  return [...painter.getImageData(0, 0, 1, 1).data].map((value) => value / 255);
}

function over(top, bottom) {
  return [0, 1, 2].map((index) => top[index] * top[3] + bottom[index] * (1 - top[3])).concat(1);
}

function groundOf(element) {
  const layers = [];
  for (let each = element; each; each = each.parentElement) {
    const layer = channels(getComputedStyle(each).backgroundColor);
    layers.push(layer);
    if (layer[3] === 1) break;
  }
  return layers.reduceRight((below, layer) => over(layer, below), [1, 1, 1, 1]);
}

// WCAG 2.1's ratio.
function ratio(one, other) {
  const light = (colour) => colour.slice(0, 3).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function tooFaint(element, style, text) {
  const ground = groundOf(element);
  const found = ratio(over(channels(style.color), ground), ground);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  return found < (large ? 3 : 4.5) ? `${found.toFixed(2)} of "${text.trim().slice(0, 40)}" in ${element.tagName}.${element.className}` : null;
}

function faintTexts() {
  const wrong = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !visible(element) || element.closest("option")) continue;
    ++seen;
    wrong.push(tooFaint(element, getComputedStyle(element), walker.currentNode.data));
  }
  for (const element of document.querySelectorAll("[placeholder]")) {
    if (visible(element)) wrong.push(tooFaint(element, getComputedStyle(element, "::placeholder"), element.placeholder));
  }
  return seen < 10 ? [`only ${seen} texts were seen`] : wrong.filter(Boolean);
}

function controls() {
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
    .filter((element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility());
}

// The place of the focused element among the controls, and whether it shows that it has the focus.
function focused() {
  const style = getComputedStyle(document.activeElement);
  return {index: controls().indexOf(document.activeElement), marked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2};
}

// Elements that reach beyond the window's right edge, and are not in a box that scrolls.
function tooWide() {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let each = element.parentElement; each; each = each.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(each).overflowX)) return true;
    }
    return false;
  };
  const wrong = [...document.body.querySelectorAll("*")]
    .filter((element) => visible(element) && element.getBoundingClientRect().right > width + 0.5 && !scrolls(element))
    .map((element) => `${element.tagName}.${element.getAttribute("class")} ends at ${element.getBoundingClientRect().right}`);
  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
  return wrong;
}
