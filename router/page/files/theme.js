// Light or dark, as the system says or as was chosen here; a browser that keeps nothing forgets the choice.

const KEY = "baton-theme";

export function keepTheme(select) {
  const apply = () => {
    document.documentElement.dataset.theme = select.value;
  };
  try {
    select.value = localStorage.getItem(KEY) ?? "auto";
  } catch { /* storage is switched off */ }
  if (!select.value) select.value = "auto";
  apply();
  select.addEventListener("change", () => {
    apply();
    try {
      localStorage.setItem(KEY, select.value);
    } catch { /* storage is switched off */ }
  });
}
