// Reads the values of charts that the server drew, and adds samples of events. The
// geometry is that of chart.go.

import { all, local, number, on } from './main.js'

const width = 600, height = 100

// charts are the charts of the page, by their figures.
const charts = new WeakMap()

// held is the interval that was read last. A chart that takes the place of another goes on there.
let held

// prepare makes the charts of a part readable.
export function prepare(root) {
	for (const figure of all(root, '[data-points]')) {
		const data = JSON.parse(figure.dataset.points)
		if (data.series[0]?.length) charts.set(figure, new Chart(figure, data))
	}
}

class Chart {
	constructor(figure, data) {
		const range = figure.querySelector('input')
		Object.assign(this, { figure, data, range, cursor: figure.querySelector('.cursor'), reading: figure.querySelector('.reading') })
		this.names = [...figure.querySelectorAll('.legend li')].map(e => e.textContent.trim())
		range.hidden = false
		range.value = range.max = this.length - 1
		range.oninput = () => this.read(range.valueAsNumber)
		range.onpointermove = event => this.point(event)
		range.onpointerleave = range.onblur = () => this.leave()
		if (range.matches(':focus')) this.read(range.value = Math.min(held, range.max))
	}

	get length() { return this.data.series[0].length }

	time(index) { return new Date(this.data.from + index * this.data.step * 1000) }

	clock(time) {
		const { step } = this.data
		return this.length * step > 86400 ? local(time, 0, 16) : local(time, 11, step < 60 ? 19 : 16)
	}

	each(selector, change) { this.figure.querySelectorAll(selector).forEach(change) }

	text(value) { return value === null ? this.data.none : `${typeof value === 'string' ? value : number(value)} ${this.data.unit}`.trim() }

	point(event) {
		const { range } = this
		range.value = event.offsetX / range.offsetWidth * range.max
		this.read(range.valueAsNumber)
	}

	read(index) {
		held = index
		const values = this.data.series.map((s, i) => `${this.names[i]} ${this.text(s[index])}`)
		const text = [this.clock(this.time(index)), ...values].join(' · ')
		const x = index * width / Math.max(1, this.length - 1)
		this.range.setAttribute('aria-valuetext', text)
		this.cursor.setAttribute('d', `M${x} 0V${height}`)
		this.reading.textContent = text
	}

	leave() {
		this.cursor.setAttribute('d', '')
		this.reading.textContent = ''
	}

	// add adds a sample to the newest interval, or begins one and drops the oldest;
	// intervals without a sample stay gaps. The interval that the service began is its own.
	add(values) {
		const { length, data: { from, step, series, metrics } } = this
		const missing = Math.floor((values.at - from) / 1000 / step) - length + 1
		if (!metrics || missing < 0) return
		this.samples = missing ? 1 : this.samples && this.samples + 1
		if (!this.samples) return
		series.forEach((s, i) => {
			s.push(...Array(Math.min(missing, s.length)).fill(null))
			s.splice(0, s.length - length)
			const value = values[metrics[i]]
			const mean = s.pop() ?? value
			s.push(value === null ? null : mean + (value - mean) / this.samples)
		})
		this.data.from += missing * step * 1000
		this.draw()
	}

	draw() {
		const { series, whole } = this.data
		const top = ceiling(Math.max(whole ? 2 : 0, ...series.flat()))
		this.each('.plot .line', (e, i) => e.setAttribute('d', path(series[i], top, false)))
		this.each('.plot .point', (e, i) => e.setAttribute('d', path(series[i], top, true)))
		this.each('.y li', (e, i) => { e.textContent = this.text(top * i / 2) })
		this.each('.x time', (e, i) => {
			const time = this.time(Math.floor((this.length - 1) * i / 2))
			e.dateTime = time.toISOString()
			e.textContent = this.clock(time)
		})
	}
}

// path returns the line of a series, or its values between two gaps.
function path(values, top, alone) {
	return values.map((v, i) => {
		const starts = (values[i - 1] ?? null) === null
		const ends = (values[i + 1] ?? null) === null
		return v === null || alone !== (starts && ends) ? '' : `${starts ? 'M' : 'L'}${(i * width / Math.max(1, values.length - 1)).toFixed(1)} ${(height * (1 - v / top)).toFixed(1)}${alone ? 'h0' : ''}`
	}).join('')
}

// ceiling returns the end of an axis: a number with an even half.
function ceiling(highest) {
	if (highest <= 0) return 1
	highest = Math.max(highest, 0.2)
	const size = 10 ** Math.floor(Math.log10(highest))
	return [1, 2, 4, 6, 8, 10].find(n => n * size >= highest) * size
}

on('sample', event => {
	for (const figure of all(document, '[data-points]')) charts.get(figure)?.add(event.detail)
})
