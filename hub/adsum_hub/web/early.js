// @ts-check
/** Theme and density before anything is drawn. A classic script, since modules wait; look.js does the rest. */
for (const name of ["theme", "density"]) {
  try {
    const said = JSON.parse(localStorage.getItem(`adsum.${name}`) ?? "null");
    if (["light", "dark", "compact"].includes(said)) document.documentElement.dataset[name] = said;
  } catch {
    // Nothing is kept, or not by us: the usual look.
  }
}
