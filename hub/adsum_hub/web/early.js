// @ts-check
/**
 * What modules would do too late: theme and density before anything is drawn (core/preferences.js does the
 * rest), the link to the hub (core/link.js takes it over).
 */
for (const name of ["theme", "density"]) {
  try {
    const said = JSON.parse(localStorage.getItem(`adsum.${name}`) ?? "null");
    if (["light", "dark", "compact"].includes(said)) document.documentElement.dataset[name] = said;
  } catch {
    // Nothing is kept, or not by us: the usual look.
  }
}
{
  const socket = new WebSocket("/ws");
  /** @type {MessageEvent[]} */
  const heard = [];
  socket.onopen = () => socket.send('{"epoch":null,"offset":null,"parts":true}');
  socket.onmessage = (message) => heard.push(message);
  window.early = { socket, heard };
}
