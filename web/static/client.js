// Calls the lesson in the worker. After a panic, a new worker goes on from the last checkpoint.

export class Client {
  #worker;
  #calls = new Map();
  #count = 0;
  // The calls that bring a new worker to the state of the last checkpoint.
  #settings = new Map();
  #checkpoint;

  constructor(print) {
    this.print = print;
    this.#start();
  }

  #start() {
    this.#worker = new Worker("worker.js", { type: "module" });
    this.#worker.onerror = (event) => this.#fail(event.message ?? "the worker could not start");
    this.#worker.onmessage = ({ data }) => {
      if (data.printed !== undefined) return this.print(data.printed);
      const call = this.#calls.get(data.id);
      this.#calls.delete(data.id);
      if (data.problem === undefined) return call.resolve(data.result);
      if (data.ended) this.#restart();
      call.reject(new Error(data.problem));
    };
  }

  #fail(problem) {
    for (const call of this.#calls.values()) call.reject(new Error(problem));
    this.#calls.clear();
  }

  #restart() {
    this.#worker.terminate();
    this.#fail("the worker ended");
    this.#start();
    for (const [method, given] of this.#settings) this.#send(method, given);
    if (this.#checkpoint) this.#send("load", [this.#checkpoint]);
  }

  #send(method, given) {
    return new Promise((resolve, reject) => {
      const id = this.#count++;
      this.#calls.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, given });
    });
  }

  // Calls a method of the lesson.
  call(method, ...given) {
    return this.#send(method, given);
  }

  // Calls a method whose result is JSON.
  async read(method, ...given) {
    return JSON.parse(await this.call(method, ...given));
  }

  // Calls a method that changes the lesson, and which a new worker must repeat.
  async set(method, ...given) {
    await this.call(method, ...given);
    // New weights follow the other settings no longer.
    if (method === "set_network") this.#settings.delete("freeze");
    this.#settings.delete(method);
    this.#settings.set(method, given);
    await this.keep();
  }

  // Remembers a checkpoint of the lesson.
  async keep() {
    this.#checkpoint = await this.call("save");
    return this.#checkpoint;
  }
}
