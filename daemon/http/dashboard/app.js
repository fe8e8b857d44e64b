fetch("api/session").then((reply) => reply.json()).then((session) => {
  document.getElementById("state").textContent = session.version;
});
