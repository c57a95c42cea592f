// A receiver and a sender of MQTT.js, told by their arguments where the broker
// is, which version of MQTT to speak and what to put before every name. What the
// receiver gets is printed line by line; the test knows what it should be.
import mqtt from "mqtt";

const [url, version, prefix] = process.argv.slice(2);
const five = version === "5";
const connectTimeout = 180_000; // as suite.HangLimit

function connect(name, more = {}) {
  return mqtt.connectAsync(url, {
    protocolVersion: Number(version),
    protocolId: version === "3" ? "MQIsdp" : "MQTT",
    clientId: prefix + name,
    reconnectPeriod: 0,
    connectTimeout,
    ...more,
  });
}

const kept = { clean: false, ...(five && { properties: { sessionExpiryInterval: 3600 } }) };

// listen prints messages and settles when the last of them has come.
function listen(client, last) {
  return new Promise((done) => {
    client.on("message", (topic, payload, packet) => {
      const props = packet.properties ?? {};
      const words = [topic, packet.qos, packet.retain ? "retained" : "live", payload.toString()];
      if (props.correlationData) {
        words.push(props.contentType, props.responseTopic, props.correlationData.toString(), props.userProperties.k);
      }
      console.log(words.join(" "));
      if (payload.toString() === last) {
        done();
      }
    });
  });
}

const sender = await connect("sender");
await sender.publishAsync(prefix + "/kept", "kept", { qos: 1, retain: true });

let receiver = await connect("receiver", kept);
let all = listen(receiver, "qos 2");
await receiver.subscribeAsync(prefix + "/#", { qos: 2 });
for (const qos of [0, 1, 2]) {
  const properties = five && {
    contentType: "text/plain",
    responseTopic: "answer",
    correlationData: Buffer.from("c" + qos),
    userProperties: { k: "v" },
  };
  await sender.publishAsync(prefix + "/x", "qos " + qos, { qos, ...(properties && { properties }) });
}
await all;
await receiver.endAsync();

for (const qos of [1, 2]) {
  await sender.publishAsync(prefix + "/away", "away " + qos, { qos });
}
receiver = mqtt.connect(url, {
  protocolVersion: Number(version),
  protocolId: version === "3" ? "MQIsdp" : "MQTT",
  clientId: prefix + "receiver",
  reconnectPeriod: 0,
  connectTimeout,
  ...kept,
});
await listen(receiver, "away 2");
await receiver.endAsync();
await sender.endAsync();
